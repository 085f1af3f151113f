"""Weights that are stored as integers: the stored numbers, the scales, and the way to compute."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.transforms.quantization.weight_only import QuantizeWeights, WeightOnlyLayer


def linear(rows, **options):
    """Return a linear layer with these rows of weights."""
    layer = nn.Linear(len(rows[0]), len(rows), **options)
    layer.weight.data = torch.tensor(rows)
    return layer


def test_eight_bits_have_a_scale_for_each_row():
    made = WeightOnlyLayer(linear([[127.0, -127.0, 1.0], [2.54, 0.02, 0.0]]), 8, None)

    assert made.integers.tolist() == [[127, -127, 1], [127, 1, 0]]
    assert made.scale.flatten().tolist() == pytest.approx([1, 0.02])
    assert made.group_size == 3


def test_groups_have_a_scale_each_and_the_last_may_be_smaller():
    made = WeightOnlyLayer(linear([[127.0, 1.0, 254.0, 2.0, 12.7]]), 8, 2)

    assert made.integers.tolist() == [[127, 1, 127, 1, 127]]
    assert made.scale.tolist() == [pytest.approx([1, 2, 0.1])]
    assert made.weight.tolist() == [pytest.approx([127, 1, 254, 2, 12.7])]


def test_four_bits_lie_in_pairs_in_a_byte():
    made = WeightOnlyLayer(linear([[7.0, -7.0, 1.0], [0.0, 14.0, -2.0]]), 4, None)

    assert made.integers.dtype is torch.uint8
    assert made.integers.tolist() == [[15 | 1 << 4, 9 | 8 << 4], [8 | 15 << 4, 7 | 8 << 4]]
    assert made.weight.tolist() == [[7, -7, 1], [0, 14, -2]]


def test_a_row_of_zeros_stays_zero():
    made = WeightOnlyLayer(linear([[0.0, 0.0], [1.0, -1.0]]), 8, None)

    assert made.weight[0].tolist() == [0, 0]
    assert made.weight[1].tolist() == pytest.approx([1, -1])


def test_a_group_is_at_most_a_row():
    assert WeightOnlyLayer(nn.Linear(4, 2), 8, 100).group_size == 4


@pytest.mark.parametrize(
    ("transform", "group_size"),
    [
        (QuantizeWeights(), 64),
        (QuantizeWeights(group_size=16), 16),
        (QuantizeWeights(bits=4), 32),
        (QuantizeWeights(bits=4, group_size=1), 1),
    ],
)
def test_four_bits_have_groups_of_32_unless_a_size_is_given(transform, group_size):
    made = transform(fxcore.symbolic_trace(nn.Sequential(nn.Linear(64, 2)))).graph_module

    assert made.get_submodule("0").group_size == group_size
    assert made.get_submodule("0").bits == transform.bits


@pytest.mark.parametrize(
    "transform", [QuantizeWeights(bits=3), QuantizeWeights(group_size=0), QuantizeWeights(bits=16)]
)
def test_other_settings_are_refused(transform):
    with pytest.raises(
        PassArgumentError, match=r"weights of \d+ bits in groups of .* cannot be made; give 8 or 4 bits"
    ):
        transform(fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 4))))


def test_a_layer_that_is_there_twice_stays_one_layer():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)

    result = QuantizeWeights()(fxcore.symbolic_trace(model))

    made = result.graph_module
    assert len({id(each) for each in made.modules() if isinstance(each, WeightOnlyLayer)}) == 1
    assert model[0] is layer


@pytest.mark.parametrize("is_training", [True, False])
def test_a_made_layer_has_the_mode_and_the_bias_of_its_layer(is_training):
    layer = nn.Linear(4, 2).train(is_training)

    made = WeightOnlyLayer(layer, 8, None)

    assert made.training is is_training
    assert made.bias is layer.bias
    assert sorted(made.state_dict()) == ["bias", "integers", "scale"]
    assert WeightOnlyLayer(nn.Linear(4, 2, bias=False), 8, None).bias is None


def test_a_made_layer_says_how_its_weight_is_stored():
    made = WeightOnlyLayer(nn.Conv1d(4, 2, 3), 4, 6)

    assert repr(made) == "WeightOnlyLayer(Conv1d, bits=4, group_size=6)"


LAYERS = {
    "linear": (nn.Linear(32, 6), (3, 32)),
    "linear without bias": (nn.Linear(32, 6, bias=False), (2, 3, 32)),
    "linear with one row": (nn.Linear(32, 6), (32,)),
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2, bias=False), (2, 4, 9)),
    "conv2d": (nn.Conv2d(4, 6, 3, groups=2, padding=1, padding_mode="reflect"), (2, 4, 5, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (8, 5), (4, 8), (4, None)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_made_layer_computes_with_its_weight(name, bits, group_size, dtype):
    layer, shape = LAYERS[name]
    layer = copy.deepcopy(layer).to(dtype)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    made = WeightOnlyLayer(layer, bits, group_size)

    layer.weight.data = made.weight

    assert made.weight.dtype is dtype
    torch.testing.assert_close(made(x), layer(x), atol=0.1 if dtype is torch.bfloat16 else 0.01, rtol=0.02)


def test_a_half_is_computed_with_the_scaled_weight():
    layer = linear([[6e4] * 4]).half()
    made = WeightOnlyLayer(layer, 8, None)

    assert made(torch.tensor([[1.0, -1.0, 0.5, -0.5]]).half()).isfinite().all()
    rows = linear([[1.0] * 600]).half()
    assert WeightOnlyLayer(rows, 8, None)(torch.ones(1, 600).half()).isfinite().all(), "127 * 600 is no half"


@pytest.fixture
def kernel_calls(monkeypatch):
    calls = []
    kernel = torch._weight_int8pack_mm
    monkeypatch.setattr(torch, "_weight_int8pack_mm", lambda *args: (calls.append(args), kernel(*args))[1])
    return calls


@pytest.mark.parametrize(
    ("x", "bits", "group_size", "is_taken"),
    [
        (torch.ones(8, 32, dtype=torch.bfloat16), 8, None, True),
        (torch.ones(2, 4, 32, dtype=torch.bfloat16), 8, None, True),
        (torch.ones(32, dtype=torch.bfloat16), 8, None, True),
        (torch.ones(8, 32, dtype=torch.bfloat16, requires_grad=True), 8, None, False),
        (torch.ones(9, 32, dtype=torch.bfloat16), 8, None, False),
        (torch.ones(0, 32, dtype=torch.bfloat16), 8, None, False),
        (torch.ones(8, 32, dtype=torch.bfloat16), 8, 16, False),
        (torch.ones(8, 32, dtype=torch.bfloat16), 4, None, False),
        (nn.Parameter(torch.ones(8, 32, dtype=torch.bfloat16), requires_grad=False), 8, None, False),
    ],
)
def test_torch_s_kernel_takes_few_rows_of_bfloat16(kernel_calls, x, bits, group_size, is_taken):
    made = WeightOnlyLayer(nn.Linear(32, 16, dtype=torch.bfloat16), bits, group_size)

    result = made(x)

    assert bool(kernel_calls) is is_taken
    assert result.shape == (*x.shape[:-1], 16)


def test_torch_s_kernel_takes_rows_that_need_gradients_where_none_are_computed(kernel_calls):
    made = WeightOnlyLayer(nn.Linear(32, 16, dtype=torch.bfloat16), 8, None)

    with torch.no_grad():
        made(torch.ones(2, 32, dtype=torch.bfloat16, requires_grad=True))

    assert kernel_calls


def test_a_layer_of_single_precision_takes_rows_of_bfloat16_under_autocast_alone(kernel_calls):
    made = WeightOnlyLayer(nn.Linear(32, 16), 8, None)

    with torch.autocast("cpu", torch.bfloat16):
        result = made(torch.ones(2, 32, dtype=torch.bfloat16))

    assert not kernel_calls, "the types differ"
    assert result.dtype is torch.bfloat16
    assert F.linear(torch.ones(2, 32), made.weight, made.bias).sub(result).abs().max() < 0.1
