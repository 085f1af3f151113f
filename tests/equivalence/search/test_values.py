"""Values of each kind are what the kind says, within what eager accepts, and the same for the same seed."""

from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.equivalence.search.values import ValueRange, draw, kinds_for

FLOATS = ValueRange(torch.float32, -2.0, 5.0)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.bool, torch.uint8, torch.int8, torch.int64])
def test_each_kind_gives_values_of_the_dtype_that_depend_on_the_seed_alone(dtype):
    values = ValueRange(dtype, 0, 3, 0, 3)

    for kind in kinds_for(dtype):
        first, again = draw(kind, values, 50, 1), draw(kind, values, 50, 1)

        assert (first.dtype, first.shape) == (dtype, (50,))
        assert torch.equal(first.nan_to_num() if dtype.is_floating_point else first,
                           again.nan_to_num() if dtype.is_floating_point else again)  # fmt: skip
        assert draw(kind, values, 0, 1).shape == (0,)


def test_a_range_is_kept():
    drawn = draw("range", FLOATS, 1000, 0)

    assert -2 <= drawn.min() < -1.9
    assert 4.9 < drawn.max() <= 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_values_are_finite_and_tiny_ones_are_not_zero(dtype):
    values = ValueRange(dtype, 0.0, 1.0)

    assert draw("huge", values, 1000, 0).isfinite().all()
    assert (draw("subnormal", values, 1000, 0) != 0).sum() > 900


def test_special_values_stand_among_ordinary_ones():
    assert 0 < draw("nan", FLOATS, 100, 0).isnan().sum() < 50
    assert 0 < draw("infinite", FLOATS, 100, 0).isinf().sum() < 50
    minus_zeros = draw("minus_zero", FLOATS, 100, 0)
    assert ((minus_zeros == 0) & minus_zeros.signbit()).any()


def test_ties_are_few_different_values():
    assert set(draw("ties", FLOATS, 100, 0).tolist()) == {0.0, 1.0}
    assert set(draw("ties", ValueRange(torch.int64, 7, 100, 0, 100), 100, 0).tolist()) == {7, 8}


def test_integers_stay_within_what_is_accepted():
    values = ValueRange(torch.int32, 3, 9, -1, 40)

    drawn = {kind: draw(kind, values, 500, 0) for kind in kinds_for(torch.int32)}

    assert all(each.min() >= -1 and each.max() <= 40 for each in drawn.values())
    assert (drawn["range"].min(), drawn["range"].max()) == (3, 9)
    assert (drawn["accepted"].min(), drawn["accepted"].max()) == (-1, 40)
    assert set(drawn["ends"].tolist()) == {-1, 0, 1, 39, 40}


def test_the_ends_of_64_bits_can_be_drawn():
    ends = torch.iinfo(torch.int64)
    values = ValueRange(torch.int64, 0, 1, ends.min, ends.max)

    assert {ends.min, ends.max} <= set(draw("ends", values, 500, 0).tolist())
    assert draw("accepted", values, 500, 0).abs().max() > 2**60
