"""An input that a check of the model's own code refuses, and that the graph answers, is a find of the search."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import fxcore
from fixtures.shown_frames import raises_here
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.search.judging import own_refusal
from pytest_fxgraph.errors import MismatchError

pytest.importorskip("hypothesis")

INPUTS = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.5


class Checked(nn.Module):
    """A model with one check of its own, and a function of all inputs."""

    def forward(self, x, scale=2.0):
        self.check(x, scale)
        return x.sum(0) * scale

    def check(self, x, scale):
        raise NotImplementedError


class OfRows(Checked):
    def check(self, x, scale):
        if x.shape[0] > 3:
            raise ValueError(f"{x.shape[0]} rows, at most 3")


class OfDtype(Checked):
    def check(self, x, scale):
        assert x.dtype == torch.float32, "single precision alone"


class OfValues(Checked):
    def check(self, x, scale):
        if bool((x < 0).any()):
            raise ValueError("a negative number")


class OfNumber(Checked):
    def check(self, x, scale):
        if scale == 0:
            raise ValueError("the scale is zero")


class ByTorch(Checked):
    def check(self, x, scale):
        torch._assert(x.shape[0] <= 3, "too many rows")


class ByCondition(Checked):
    def check(self, x, scale):
        torch._check(x.shape[0] <= 3, lambda: "too many rows")


def unchecked():
    class Unchecked(nn.Module):
        def forward(self, x, scale=2.0):
            return x.sum(0) * scale

    return fxcore.symbolic_trace(Unchecked())


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (OfRows(), "ValueError: [0-9]+ rows, at most 3"),
        (OfDtype(), "AssertionError: single precision alone"),
        (OfValues(), "ValueError: a negative number"),
        (OfNumber(), "ValueError: the scale is zero"),
        (ByTorch(), "AssertionError: too many rows"),
        (ByCondition(), "RuntimeError: too many rows"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_check_that_the_graph_lost_is_found_with_its_line_and_an_input(model, words):
    FxEquivalence()(model, INPUTS, graph=unchecked())

    with raises_here(MismatchError) as caught:
        FxEquivalence()(model, INPUTS, graph=unchecked(), search=60)

    first, second, *_ = str(caught.value).splitlines()
    assert re.search(rf"eager refuses an input that the graph answers: {words} \(test_own_checks.py:\d+\)", first)
    assert "found by search" in second
    assert "0 = float" in second


def test_an_assertion_that_a_pass_removed_is_found():
    model = ByTorch()
    graph_module = fxcore.symbolic_trace(model)
    FxEquivalence()(model, INPUTS, graph=graph_module, search=12)
    (node,) = graph_module.graph.find_nodes(op="call_function", target=torch._assert)
    graph_module.graph.erase_node(node)
    graph_module.recompile()

    with raises_here(MismatchError, match="too many rows"):
        FxEquivalence()(model, INPUTS, graph=graph_module, search=12)


class Viewed(nn.Module):
    """An operator, and no check of the model, refuses other sizes."""

    def forward(self, x):
        return x.view(3, 4).sin()


class Normed(nn.Module):
    """A module of torch refuses other sizes by a check of torch."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


@pytest.mark.parametrize(
    ("model", "graph"),
    [
        (Viewed(), lambda x: x.sin()),
        (Normed(), lambda x: x / (1 + 1e-5) ** 0.5),
    ],
    ids=["operator", "module of torch"],
)
def test_a_refusal_of_torch_is_no_check_of_the_model(model, graph):
    FxEquivalence()(model, INPUTS, graph=fxcore.symbolic_trace(graph), search=12)


@pytest.mark.parametrize("frontend", [pytest.param("dynamo", marks=pytest.mark.slow), "export", "make_fx"])
@pytest.mark.parametrize("model", [OfRows(), OfDtype(), OfNumber()], ids=lambda model: type(model).__name__)
def test_a_capture_whose_conditions_torch_keeps_elsewhere_is_not_accused(model, frontend):
    FxEquivalence()(model, INPUTS, frontend=frontend, search=12)


@pytest.mark.parametrize("model", [OfRows(), OfDtype(), OfNumber()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("enforce_guards", [True, False])
def test_a_trace_with_an_example_holds_the_check_as_a_guard(model, enforce_guards):
    graph_module = fxcore.symbolic_trace(model, example_inputs=(INPUTS,), enforce_guards=enforce_guards)

    FxEquivalence()(model, INPUTS, graph=graph_module, search=12)


def raised_by(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any error
        function()
    return caught.value


def test_the_line_of_a_check_is_that_of_the_model_below_checks_of_torch():
    def model():
        torch._check(False, lambda: "no")  # the line

    number = model.__code__.co_firstlineno + 1

    assert own_refusal(raised_by(model), model) == f"test_own_checks.py:{number}"
    assert own_refusal(raised_by(lambda: torch.ones(2).view(3)), model) is None
    assert own_refusal(raised_by(lambda: nn.BatchNorm1d(2)(torch.ones(2))), model) is None
    assert own_refusal(ValueError("never raised"), model) is None
