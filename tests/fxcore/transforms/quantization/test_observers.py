"""Observers: the range of values that each one finds, and the settings that they refuse."""

from __future__ import annotations

import pytest
import torch

from fxcore.errors import PassArgumentError
from fxcore.transforms.quantization.observers import activation_observer, weight_observer

# torch says so of `reduce_range`.
pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning")


@pytest.mark.parametrize(
    ("percentile", "most", "values", "found"),
    [
        # Of 101 values, one at either end lies beyond the percentile of 99.
        (99, 1000, torch.arange(101.0), (1.0, 99.0)),
        (90, 1000, torch.arange(101.0), (10.0, 90.0)),
        (100, 1000, torch.arange(101.0), (0.0, 100.0)),
        (100, 1000, torch.tensor([-3.0]), (-3.0, -3.0)),
        # Of more values than `most`, every n-th counts.
        (100, 10, torch.arange(11.0), (0.0, 10.0)),
        (100, 10, torch.arange(12.0), (0.0, 10.0)),
        (100, 10, torch.arange(10.0), (0.0, 9.0)),
        (100, 1000, torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), (0.0, 5.0)),
    ],
)
def test_the_range_leaves_out_the_values_beyond_the_percentile(percentile, most, values, found):
    observer = activation_observer("percentile", percentile=percentile, most=most)()

    assert observer(values) is values
    assert (observer.min_val.item(), observer.max_val.item()) == found


def test_the_widest_range_of_all_batches_counts_and_an_empty_batch_has_none():
    observer = activation_observer("percentile", percentile=100)()

    for batch in ([-1.0, 5.0], [], [-2.0, 3.0]):
        observer(torch.tensor(batch))

    assert (observer.min_val.item(), observer.max_val.item()) == (-2.0, 5.0)


@pytest.mark.parametrize("percentile", [50, 100.1, -1])
def test_a_percentile_that_leaves_nothing_is_refused(percentile):
    with pytest.raises(PassArgumentError, match=f"a percentile of {percentile} leaves nothing; give one from 50 to"):
        activation_observer("percentile", percentile=percentile)()


def test_a_percentile_just_above_the_median_is_allowed():
    assert activation_observer("percentile", percentile=50.5)().percentile == 50.5


@pytest.mark.parametrize(("engine", "reduces"), [("fbgemm", True), ("x86", True), ("qnnpack", False)])
def test_engines_that_could_overflow_get_seven_bits(engine, reduces, monkeypatch):
    monkeypatch.setattr("fxcore.transforms.quantization.observers.torch.backends.quantized", Backend(engine))

    observer = activation_observer("minmax")()

    assert (observer.dtype, observer.reduce_range) == (torch.quint8, reduces)
    assert observer.quant_max == (127 if reduces else 255)


class Backend:
    """The part of torch.backends.quantized that names the engine."""

    def __init__(self, engine: str):
        self.engine = engine


@pytest.mark.parametrize(
    ("kind", "scheme", "scales"),
    [
        ("per_channel", torch.per_channel_symmetric, [1.0, 2.0]),
        ("per_tensor", torch.per_tensor_symmetric, [2.0]),
    ],
)
def test_weights_have_signed_bits_around_zero(kind, scheme, scales):
    observer = weight_observer(kind)()

    observer(torch.tensor([[127.5, -1.0], [0.0, 255.0]]))

    found, zero_points = observer.calculate_qparams()
    assert (observer.dtype, observer.qscheme) == (torch.qint8, scheme)
    assert (found.tolist(), zero_points.unique().tolist()) == (scales, [0])
