from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.errors import EagerError
from pytest_fxgraph.functions import assert_equivalent


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x / 3 * 7


def scaled_in_another_order(x: torch.Tensor) -> torch.Tensor:
    return x * 7 / 3


def half_lost(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float().sum(0)


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 4096).cos().reshape(1024, 4) * 1e3


def test_values_that_differ_count_unless_the_graph_is_as_near_to_double_precision_as_eager():
    graph, exact = fxcore.symbolic_trace(scaled_in_another_order), {"rtol": 0.0, "atol": 0.0}

    with pytest.raises(AssertionError, match="output has other values"):
        FxEquivalence()(scaled, values(), graph=graph, **exact)
    FxEquivalence()(scaled, values(), graph=graph, fp64_reference=True, **exact)


def test_a_graph_that_is_farther_from_double_precision_is_refused_with_both_distances():
    graph = fxcore.symbolic_trace(half_lost)

    with pytest.raises(AssertionError, match=r"off from float64 by .* in the graph, .* in eager"):
        FxEquivalence()(summed, values(), graph=graph, fp64_reference=True)


def test_the_model_stays_in_its_own_precision():
    model = nn.Linear(4, 4)
    graph = fxcore.symbolic_trace(lambda x: x * 2)

    with pytest.raises(AssertionError, match="off from float64"):
        FxEquivalence()(model, torch.ones(2, 4), graph=graph, fp64_reference=True)

    assert model.weight.dtype is torch.float32


class Steep(nn.Module):
    """Has gradients of thousands, which rounding of another order of sums moves by more than 1e-5."""

    def __init__(self, part: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(256, 256, generator=generator) * 10)
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight * 1e-3) * 1e3 + self.part * (x - x.detach()) * 1e-3


class SteepInChannelsLast(Steep):
    """Computes the same with another order of its sums."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.weight.shape[0] // 2
        product = x[:, half:] @ self.weight[half:] + x[:, :half] @ self.weight[:half]
        return torch.tanh(product * 1e-3) * 1e3 + self.part * (x - x.detach()) * 1e-3


def test_large_gradients_may_differ_by_rounding_alone():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))

    assert_equivalent(Steep(), SteepInChannelsLast(), x, grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Steep(), SteepInChannelsLast(part=1.0), x, grads=True)


def test_a_run_in_double_precision_judges_gradients_where_that_is_asked_for():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))
    exact = {"rtol": 0.0, "atol": 0.0, "grads": True, "fp64_reference": True}

    assert_equivalent(Steep(), SteepInChannelsLast(), x, **exact)
    with pytest.raises(AssertionError, match=r"gradient of input 0 .*off from float64 by .* in the graph, .* in eager"):
        assert_equivalent(Steep(), SteepInChannelsLast(part=1.0), x, **exact)


def test_a_model_that_does_not_run_in_double_precision_is_told_where_that_was_asked_for():
    def eager(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(2, 2)

    graph = fxcore.symbolic_trace(lambda x: x @ torch.full((2, 2), 1.1))

    with pytest.raises(
        EagerError, match=r"a run of the model in double precision, which raised RuntimeError.*drop fp64_"
    ):
        FxEquivalence()(eager, torch.ones(2, 2), graph=graph, fp64_reference=True)


def test_a_gradient_may_differ_by_much_where_eager_itself_is_that_far_from_double_precision():
    def eager(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x + 1e-9 > x, x * 2 - x, x * 1 + (x - x.detach()) - (x - x.detach()) * 0.5)

    def moved_over_the_threshold(x: torch.Tensor) -> torch.Tensor:
        return x * 2 - x

    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x * 2 - x + (x - x.detach()) * 2

    assert_equivalent(eager, moved_over_the_threshold, torch.ones(4), grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(eager, wrong, torch.ones(4), grads=True)
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(moved_over_the_threshold, eager, torch.ones(4), grads=True)


class Kinked(nn.Module):
    """Adds a relu of next to nothing, which rounding turns into 0 in single precision if `is_lost`."""

    def __init__(self, is_lost: bool, slope: float = 1.0, share: float = 0.05) -> None:
        super().__init__()
        self.is_lost, self.slope, self.share = is_lost, slope, share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x.detach()
        first, last = (1e-9, -kept) if self.is_lost else (-kept, 1e-9)
        at_zero = torch.relu(x + first + last)
        return x * self.slope - kept * (self.slope - 1) + at_zero * self.share


def test_a_gradient_agrees_where_rounding_moves_a_relu_over_zero_in_the_graph_alone():
    eager, moved = Kinked(is_lost=False), Kinked(is_lost=True)

    assert_equivalent(eager, moved, torch.ones(4), grads=True)
    assert_equivalent(moved, eager, torch.ones(4), grads=True)


@pytest.mark.parametrize("wrong", [Kinked(is_lost=True, slope=1.01), Kinked(is_lost=True, share=0.04)])
def test_a_gradient_that_differs_in_double_precision_too_is_refused(wrong):
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Kinked(is_lost=False), wrong, torch.ones(4), grads=True)


def test_a_gradient_that_differs_by_much_is_refused_though_it_is_right_in_double_precision():
    with pytest.raises(AssertionError, match="gradient of input 0 has other values"):
        assert_equivalent(Kinked(is_lost=False, share=0.5), Kinked(is_lost=True, share=0.5), torch.ones(4), grads=True)


def test_a_mismatch_that_is_no_value_is_no_question_of_precision():
    graph = fxcore.symbolic_trace(lambda x: (x, x))

    with pytest.raises(AssertionError, match="output is Tensor in eager, tuple of 2 in the graph") as caught:
        FxEquivalence()(lambda x: x * 2, values(), graph=graph, fp64_reference=True)
    assert "off from float64" not in str(caught.value)


def test_mismatches_of_other_kinds_stay_beside_values_that_are_judged():
    def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scaled(x), x.double()

    graph = fxcore.symbolic_trace(lambda x: (scaled_in_another_order(x), x * 1))

    with pytest.raises(
        AssertionError, match=r"output\[1\] has dtype torch.float64 in eager, torch.float32 in"
    ) as caught:
        FxEquivalence()(two, values(), graph=graph, fp64_reference=True, rtol=0.0, atol=0.0)
    assert "output[0]" not in str(caught.value)


def test_complex_values_are_judged_in_double_precision():
    turned = torch.polar(torch.ones(64), torch.linspace(0, 6, 64))
    graph, exact = fxcore.symbolic_trace(scaled_in_another_order), {"rtol": 0.0, "atol": 0.0}

    with pytest.raises(AssertionError, match="output has other values"):
        FxEquivalence()(scaled, turned, graph=graph, **exact)
    FxEquivalence()(scaled, turned, graph=graph, fp64_reference=True, **exact)
