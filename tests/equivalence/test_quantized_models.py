"""Models with quantized weights are checked, and restored, like any other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fixtures.quantized_tensors import OwnQuantized, WrappingTensor, with_wrapped_weights
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.functions import assert_equivalent
from pytest_fxgraph.transform.fixture import FxTransform

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 8).reshape(2, 4)


def base() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


MODELS = {"wrapping": lambda: with_wrapped_weights(base()), "torch's own": OwnQuantized}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("trace", ["fxcore", "torch"])
def test_a_model_with_quantized_weights_is_compared_and_transformed(make, trace):
    model = make()

    FxEquivalence()(model, values().requires_grad_(), grads=True, modes=("eval", "train"))
    FxTransform()(lambda gm: gm, model, values(), trace=trace, allow_vacuous=True)
    result = FxTransform()(lambda gm: gm, torch.fx.symbolic_trace(model), values(), inplace=True, allow_vacuous=True)

    assert result.difference.is_empty


def test_a_quantized_model_is_compared_with_the_one_that_it_was_made_of():
    model = base()

    FxEquivalence()(model, values(), graph=with_wrapped_weights(model), atol=0.02)
    with pytest.raises(AssertionError, match="output has other values in the graph than in eager"):
        FxEquivalence()(model, values(), graph=with_wrapped_weights(model), atol=1e-5)


def test_a_write_into_a_wrapped_weight_is_told_and_put_back():
    model = with_wrapped_weights(base())
    before = model[0].weight.whole.clone()

    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x)
            self.inner[0].weight.whole.add_(1)
            return y

    def writes(gm: torch.fx.GraphModule) -> None:
        gm.get_submodule("0").weight.scale.mul_(2)

    def replaces(gm: torch.fx.GraphModule) -> None:
        gm.get_submodule("0").weight.whole = torch.zeros_like(before)

    with pytest.raises(AssertionError, match=r"parameter 0\.weight was changed by the graph, not by eager"):
        FxEquivalence()(model, values(), graph=Writing())
    assert torch.equal(model[0].weight.whole, before)
    for transform in (writes, replaces):
        with pytest.raises(AssertionError, match=r"changed the model that it was given: parameter 0\.weight has other"):
            FxTransform()(transform, model, values())
        assert torch.equal(model[0].weight.whole, before)


def test_an_output_that_wraps_tensors_is_compared_by_these():
    wrapped = WrappingTensor(torch.arange(4, dtype=torch.int8), torch.tensor(0.5))
    other = WrappingTensor(torch.arange(4, dtype=torch.int8), torch.tensor(0.25))

    assert_equivalent(lambda x: x.clone(), lambda x: x.detach().clone(), (wrapped,))
    with pytest.raises(AssertionError, match=r"output\.scale has other values in the graph than in eager"):
        assert_equivalent(lambda x: x.clone(), lambda x: other, (wrapped,))


@pytest.mark.parametrize(
    ("scale", "zero_point", "words"),
    [
        (0.1, 4, r"has quantization scale 0.1, zero point 3 in eager, scale 0.1, zero point 4 in the graph"),
        (0.2, 3, r"has quantization scale 0.1, zero point 3 in eager, scale 0.2, zero point 3 in the graph"),
    ],
)
def test_a_quantized_result_with_another_scale_or_zero_point_is_a_difference(scale, zero_point, words):
    def quantized(scale, zero_point):
        return lambda x: torch.quantize_per_tensor(x.round(), scale, zero_point, torch.quint8)

    FxEquivalence()(quantized(0.1, 3), values().abs(), graph=quantized(0.1, 3))
    with pytest.raises(AssertionError, match=words):
        FxEquivalence()(quantized(0.1, 3), values().abs(), graph=quantized(scale, zero_point))


def test_a_result_quantized_by_channel_is_compared_channel_by_channel():
    def quantized(zero_points):
        scales = torch.tensor([0.1, 0.2])
        return lambda x: torch.quantize_per_channel(x.round(), scales, torch.tensor(zero_points), 0, torch.quint8)

    with pytest.raises(AssertionError, match=r"axis 0, scale/zero point 0.1/0, 0.2/0 in eager, .* 0.1/0, 0.2/5 in the"):
        FxEquivalence()(quantized([0, 0]), values().abs(), graph=quantized([0, 5]))
