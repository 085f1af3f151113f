"""The choices on the way from a request to a capture; `test_capture.py` has what each frontend makes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pytest_fxgraph.captures import ways
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.errors import CaptureError

X = torch.ones(2, 4)


@pytest.mark.parametrize(
    ("call", "is_with_inputs"),
    [(((), {}), False), (((X,), {}), True), (((), {"x": X}), True), (((X,), {"y": X}), True)],
)
def test_a_symbolic_trace_takes_the_inputs_that_there_are(call, is_with_inputs, monkeypatch):
    traced = []
    monkeypatch.setattr(ways, "trace", lambda model: traced.append(None))
    monkeypatch.setattr(ways, "trace_for_inputs", lambda model, args, kwargs, *, verify: traced.append(verify))

    ways._by_symbolic_trace(SimpleNamespace(calls=[call], model=nn.ReLU(), name="ReLU"))

    assert traced == [True if is_with_inputs else None]


@pytest.mark.parametrize(
    ("mode", "training", "is_training"),
    [
        ("train", False, True),
        ("eval", True, False),
        ("eval", False, False),
        (None, True, True),
        (None, False, False),
        (None, None, False),
    ],
)
def test_aot_runs_a_backward_in_train_mode(mode, training, is_training, monkeypatch):
    runs = []

    class Recording:
        def __init__(self, request):
            pass

        def run(self, lower, *, is_backward_run):
            runs.append((is_backward_run, torch.is_grad_enabled()))

        def capture(self, graphs, **more):
            return graphs

    monkeypatch.setattr(ways, "DynamoRecording", Recording)
    model = SimpleNamespace() if training is None else SimpleNamespace(training=training)

    ways._by_aot(SimpleNamespace(model=model, mode=mode, decomposition_table=None))

    assert runs == [(is_training, is_training)]


@pytest.mark.parametrize(
    ("model", "shapes", "words"),
    [
        (nn.ReLU(), False, "makes all sizes symbolic or none"),
        (nn.ReLU(), {"x": {0: "n"}}, "makes all sizes symbolic or none"),
        (TrainStep(nn.Linear(4, 4), lambda each: torch.optim.SGD(each, lr=1)), True, "the graph of a train step has"),
    ],
)
def test_make_fx_refuses_sizes_that_it_cannot_make(model, shapes, words):
    with pytest.raises(CaptureError, match=words):
        ways._by_make_fx(SimpleNamespace(model=model, dynamic_shapes=shapes, calls=[((X,), {})]))


@pytest.mark.parametrize(("shapes", "is_symbolic"), [(None, False), (True, True)])
def test_make_fx_makes_sizes_symbolic_where_it_is_told_to(shapes, is_symbolic):
    capture = ways.captured(CaptureRequest.of(nn.Linear(4, 4), X, None, "make_fx", dynamic_shapes=shapes))

    assert bool(capture.range_constraints) is is_symbolic
    assert [node.op for node in capture.graphs[0].graph.nodes].count("placeholder") == 1


@pytest.mark.parametrize(("args", "kwargs"), [((X,), {}), ((X, 2), {}), ((X,), {"y": X}), (([X, X],), {})])
def test_a_graph_of_make_fx_runs_on_the_inputs_of_its_model(args, kwargs):
    def model(x, y=3):
        return (x[0] if isinstance(x, list) else x) * y

    graph_module = ways.runnable_graph(CaptureRequest.of(model, args, kwargs, "make_fx"))

    assert torch.equal(graph_module(*args, **kwargs), model(*args, **kwargs))
