from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fixtures.train_steps import net_inputs, net_step
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.choice import captured_by, checked_frontend, other_frontends_named, runnable_by
from pytest_fxgraph.errors import CaptureError, ChoiceError

INPUTS = (torch.ones(2),)
GRAPH = fxcore.symbolic_trace(nn.ReLU())


def by(frontend: str, subject: object, inputs: object = INPUTS, kwargs: dict[str, object] | None = None) -> object:
    with captured_by(frontend, subject, inputs, kwargs, None) as given:
        return given


def test_a_model_is_captured_and_any_other_subject_stays():
    model = nn.ReLU()

    assert by("symbolic", model) is model
    assert by("make_fx", GRAPH) is GRAPH
    assert isinstance(by("make_fx", model), Capture)
    assert isinstance(by("make_fx", lambda x: x + 1, None, {"x": INPUTS[0]}), Capture)


def test_a_frontend_that_runs_the_model_needs_inputs():
    with pytest.raises(CaptureError, match="frontend='make_fx' runs the model once, so it needs inputs: give example_"):
        by("make_fx", nn.ReLU(), None)


def test_a_runnable_graph_is_made_of_a_model_alone():
    graph = runnable_by("make_fx", nn.ReLU(), INPUTS, {})

    assert graph is not None
    assert torch.equal(graph(-INPUTS[0]), torch.zeros(2))
    assert runnable_by("symbolic", nn.ReLU(), INPUTS, {}) is None
    assert runnable_by("make_fx", GRAPH, INPUTS, {}) is None


@pytest.mark.parametrize(
    ("frontend", "words"),
    [
        ("aot", "frontend='aot' makes no graph that takes what the model takes; fx_equivalence runs the graphs of "),
        ("jit", "makes no graph that takes what the model takes, and there is none of this name; fx_equivalence"),
    ],
)
def test_a_frontend_without_a_runnable_graph_is_refused(frontend, words):
    assert checked_frontend("dynamo") == "dynamo"
    with pytest.raises(ChoiceError) as caught:
        checked_frontend(frontend)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("message", "told"),
    [("cannot trace", "cannot trace\nor let torch capture it: "), ("frontend='aot': no", "frontend='aot': no")],
)
def test_the_other_frontends_are_named_once(message, told):
    cause = ValueError()

    with pytest.raises(CaptureError) as caught, other_frontends_named():
        raise CaptureError(message) from cause

    assert str(caught.value).startswith(told)
    assert str(caught.value).count("frontend=") == (1 if told == message else 2)
    assert caught.value.__cause__ is cause


def test_a_train_step_is_captured_by_make_fx_in_place_of_a_symbolic_trace():
    with captured_by("symbolic", net_step("sgd"), net_inputs(), None, None) as given:
        assert given.frontend == "make_fx"
    assert runnable_by("symbolic", net_step("sgd"), net_inputs(), {}) is not None


def test_a_train_step_needs_inputs():
    with (
        pytest.raises(CaptureError, match="frontend='make_fx' runs the model once, so it needs inputs"),
        captured_by("symbolic", net_step("sgd"), None, None, None),
    ):
        pass
