"""Graphs of every frontend that can be run in place of the model, and words for those that cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
from fixtures import models_that_break as models
from fixtures.quantized_tensors import with_wrapped_weights
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.errors import CaptureError, ChoiceError, MismatchError

X = torch.linspace(-1, 1, 8).reshape(2, 4)
fx_equivalence = FxEquivalence()


class Nested(nn.Module):
    """Takes and returns nested values, and counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, named, factor=2, *, more=()):
        self.calls.add_(1)
        y = self.linear(named["x"]) * factor + self.calls
        for each in more:
            y = y - each
        return {"y": y, "factor": factor, "x": named["x"]}, [y.relu(), None]


@pytest.mark.parametrize("frontend", ["export", "make_fx", "dynamo"])
def test_a_captured_graph_takes_and_returns_what_the_model_does(frontend):
    graph = fx_equivalence(
        Nested(), ({"x": X}, 3), kwargs={"more": (X + 1,)}, frontend=frontend, modes=("train",), grads=True
    )

    outputs = graph({"x": X}, 3, more=(X,))
    assert outputs[0]["factor"] == 3
    assert outputs[0]["x"] is X or frontend == "export"


@pytest.mark.parametrize("frontend", ["make_fx", "dynamo"])
def test_a_graph_that_does_something_else_is_a_mismatch(frontend):
    with pytest.raises(MismatchError, match="eager and graph differ"):
        fx_equivalence(models.CountsCalls(), X, frontend=frontend)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (models.Prints(), r"(?s)Prints is 2 graphs with Python between them, so that no graph can be run in its place; "
                          r"compare it with frontend='export' or 'make_fx'.*graph break: builtin \(print\)"),
        (nn.Identity(), "Identity has no graph, so that no graph can be run in its place"),
        (lambda x: x + X[0], r"takes \w+, which is neither an input nor state of the model"),
        (lambda x: (x + 1, {1, 2}), "returns an object of type set that its graph does not make"),
    ],
)  # fmt: skip
def test_what_dynamo_cannot_give_as_one_graph_is_said(model, words):
    with pytest.raises(CaptureError, match=words):
        fx_equivalence(model, X, frontend="dynamo")


def test_a_graph_that_takes_the_parts_of_an_input_cannot_run_in_the_models_place():
    weight = with_wrapped_weights(nn.Linear(4, 2)).weight

    with pytest.raises(CaptureError, match=r"takes the parts of the WrappingTensor .* compare it with .*'dynamo'"):
        fx_equivalence(nn.functional.linear, (X, weight), frontend="make_fx")


def test_a_frontend_whose_graphs_cannot_be_run_is_refused_where_one_is_to_be_made():
    with pytest.raises(ChoiceError, match="runs the graphs of 'symbolic', 'export', 'make_fx', 'dynamo'"):
        fx_equivalence(models.Whole(), X, frontend="aot")
    with pytest.raises(ChoiceError, match="and there is none of this name"):
        fx_equivalence(models.Whole(), X, frontend="tvm")
