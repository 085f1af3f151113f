"""What a check can see: small outputs, large outputs, untouched inputs, and outputs that say nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.fixture import Equivalence, check_equivalent
from pytest_fxgraph.equivalence.mismatch import MismatchError, VacuousCheckError


def graph_of(function):
    return fxcore.symbolic_trace(function)


def values(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [1.0, 1e-5, 1e-9, 1e-14, 1e-30])
def test_another_activation_is_caught_however_small_the_output(size):
    def eager(x):
        return torch.nn.functional.silu(x) * size

    def wrong(x):
        return torch.nn.functional.gelu(x) * size

    Equivalence()(eager, values(64), graph=graph_of(lambda x: (x * x.sigmoid()) * size))
    with pytest.raises(MismatchError, match="has other values in the graph than in eager"):
        Equivalence()(eager, values(64), graph=graph_of(wrong))


def test_zeros_for_a_tiny_output_are_caught():
    with pytest.raises(MismatchError):
        Equivalence()(lambda x: x * 1e-13, values(8), graph=graph_of(lambda x: x * 0.0))


def test_rounding_in_a_small_gradient_passes_and_an_error_does_not():
    def eager(x):
        return (x * 1e-7).tanh()

    def wrong(x):
        return (x * 1e-7).tanh().detach() + (x * 0.9e-7) - (x * 0.9e-7).detach()

    Equivalence()(eager, values(64), graph=graph_of(lambda x: ((x * 2) * 5e-8).tanh()), grads=True)
    with pytest.raises(MismatchError, match="gradient of input 0"):
        Equivalence()(eager, values(64), graph=graph_of(wrong), grads=True)


class Sums(nn.Module):
    """Adds many large numbers, which end near zero here and there; `reverse` adds them in another order."""

    def __init__(self, reverse):
        super().__init__()
        self.weight = nn.Parameter(1e4 * values(64, 512))
        self.reverse = reverse

    def forward(self, x):
        if self.reverse:
            return torch.nn.functional.linear(x.flip(1), self.weight.flip(1))
        return torch.nn.functional.linear(x, self.weight)


def test_sums_of_large_numbers_may_be_rounded_otherwise():
    with pytest.raises(AssertionError):
        torch.testing.assert_close(Sums(True)(values(16, 512)), Sums(False)(values(16, 512)))

    Equivalence()(Sums(False), values(16, 512), graph=fxcore.symbolic_trace(Sums(True)))


def test_a_small_error_beside_large_values_is_no_rounding():
    def eager(x):
        return torch.cat([x * 1e4, x / 1.5])

    with pytest.raises(MismatchError):
        Equivalence()(eager, values(16), graph=graph_of(lambda x: torch.cat([x * 1e4, x / 1.5001])))


def test_an_input_that_eager_leaves_alone_must_be_left_alone_to_the_bit():
    def graph(x, y):
        x[0].add_(1e-3)
        return y * 2

    inputs = (torch.full((4,), 1e4), values(4))
    with pytest.raises(MismatchError, match="input 0 was changed in place by the graph, not by eager"):
        Equivalence()(lambda x, y: y * 2, inputs, graph=graph_of(graph))


@pytest.mark.parametrize(
    ("model", "options"),
    [(lambda x: x * 0.0, {}), (lambda x: x * 1e-9, {"atol": 1e-5}), (lambda x: {"a": x * 0, "b": (None, x * 0)}, {})],
    ids=["zeros", "below the atol that was given", "zeros in a structure"],
)
def test_a_check_that_zeros_would_pass_is_an_error(model, options):
    with pytest.raises(VacuousCheckError, match="says nothing: a graph that gives zeros would pass, too") as caught:
        Equivalence()(model, values(4), **options)

    assert "Initialise the model so that its output is not zero" in str(caught.value)


def test_an_example_of_hypothesis_that_says_nothing_is_passed_over():
    seen = []

    @settings(database=None, derandomize=True)
    @given(strategies.sampled_from([0.0, 1.0]))
    def checked(factor):
        Equivalence()(lambda x: x * factor, values(4))
        seen.append(factor)

    checked()

    assert set(seen) == {1.0}


@pytest.mark.parametrize(
    "model",
    [
        lambda x: (x * 0, x > 0),
        lambda x: (x * 0, x.shape[0]),
        lambda x: (x * 0, x),
        lambda x: x.new_empty(0),
        lambda x: x.add_(1) * 0,
    ],
    ids=["a bool beside", "a number beside", "a value beside", "no elements", "a changed input"],
)
def test_one_value_that_could_differ_is_enough(model):
    Equivalence()(model, values(4))


def test_what_an_iterator_gives_is_compared():
    def eager(x):
        return {"parts": map(torch.neg, (x, x * 2))}

    check_equivalent(eager, eager, values(4))
    with pytest.raises(MismatchError, match=r"output\['parts'\]\[1\] has other values"):
        check_equivalent(eager, lambda x: {"parts": map(torch.neg, (x, x * 3))}, values(4))


def test_gradients_that_are_not_zero_are_enough():
    Equivalence()(lambda x: x - x.detach(), values(4), grads=True)
