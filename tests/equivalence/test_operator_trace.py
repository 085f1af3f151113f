from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence import operator_trace
from pytest_fxgraph.equivalence.operator_trace import OperatorRecorder, RecordingInterpreter

ONES = torch.ones(2)


class Inner(nn.Module):
    def forward(self, x):
        return torch.exp(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        y = torch.relu(x)
        return self.inner(y) + 1


def recorded(model, *args, keep_inputs_of: int | None = None):
    recorder = OperatorRecorder(model, keep_inputs_of)
    with recorder:
        model(*args)
    return recorder.trace


def test_each_operator_is_recorded_with_its_module_and_line():
    events = recorded(Net(), ONES).events

    assert [(event.name, event.module) for event in events] == [("relu", ""), ("exp", "inner"), ("add", "")]
    assert [event.source.partition(": ")[2] for event in events] == [
        "y = torch.relu(x)",
        "return torch.exp(x)",
        "return self.inner(y) + 1",
    ]
    assert all(event.source.startswith("test_operator_trace.py:") for event in events)
    assert {event.node for event in events} == {None}


def exponential(x, self):
    return torch.exp(x)


class Calling(nn.Module):
    def forward(self, x, other):
        return exponential(x, other)


class Helped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other = Calling(), Inner()

    def forward(self, x):
        return self.inner(x, self.other)


def test_an_operator_of_a_helper_has_its_line_and_the_module_that_called_it():
    (event,) = recorded(Helped(), ONES).events

    assert event.module == "inner"
    assert event.source.endswith(f":{exponential.__code__.co_firstlineno + 1}: return torch.exp(x)")


def test_the_code_around_the_recorded_call_is_no_line_of_the_model():
    (event,) = recorded(torch.relu, ONES).events

    assert (event.source, event.module) == (None, "")


def test_a_function_has_no_modules():
    (event,) = recorded(lambda x: torch.relu(x), ONES).events

    assert (event.module, event.autocast) == ("", "")


def test_calls_that_return_no_tensor_are_left_out():
    assert [event.name for event in recorded(lambda x: (x.size(), x.neg()), ONES).events] == ["neg"]


def test_results_are_copies():
    def write(x):
        y = x + 1
        return y.mul_(3)

    assert [event.outputs[0].tolist() for event in recorded(write, ONES).events] == [[2, 2], [6, 6]]


def test_the_inputs_of_one_event_are_kept():
    trace = recorded(lambda x: torch.add(torch.mul(x, 2), other=x), ONES, keep_inputs_of=1)

    assert {place: [tensor.tolist() for tensor in tensors] for place, tensors in trace.inputs.items()} == {
        1: [[2, 2], [1, 1]]
    }
    assert recorded(torch.relu, ONES).inputs == {}


def test_results_beyond_a_size_are_not_kept(monkeypatch):
    monkeypatch.setattr(operator_trace, "_MOST_BYTES_KEPT", 16)

    outputs = [event.outputs for event in recorded(lambda x: x.neg().neg().neg(), ONES).events]

    assert [each is None for each in outputs] == [False, False, True]  # 8 bytes each


def test_the_events_of_a_graph_have_the_nodes_and_their_places():
    graph_module = fxcore.symbolic_trace(Net())
    recorder = OperatorRecorder(graph_module)

    with recorder:
        RecordingInterpreter(graph_module, recorder).run(ONES)

    assert [(event.name, event.node, event.module) for event in recorder.trace.events] == [
        ("relu", "relu", ""),
        ("exp", "exp", "inner"),
        ("add", "add", ""),
    ]
    assert {event.source for event in recorder.trace.events} == {None}


def test_the_events_of_a_graph_have_the_lines_of_its_nodes():
    graph_module = fxcore.symbolic_trace(Net())
    for node in graph_module.graph.nodes:
        node.meta["stack_trace"] = f'  File "/models/net.py", line 7, in forward\n    {node.name} = of(x)\n'
    recorder = OperatorRecorder(graph_module)

    with recorder:
        RecordingInterpreter(graph_module, recorder).run(ONES)

    assert [event.source for event in recorder.trace.events] == [
        f"net.py:7: {name} = of(x)" for name in ("relu", "exp", "add")
    ]


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU())

    def forward(self, x):
        return self.layers(x)


def test_an_operator_of_a_layer_of_torch_has_the_line_of_the_user_that_called_it():
    (event,) = recorded(Layered(), ONES).events

    assert event.module == "layers.0"
    assert event.source.partition(": ")[2] == "return self.layers(x)"


def test_a_called_module_of_a_graph_is_the_module_of_its_events():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.ReLU()))
    recorder = OperatorRecorder(graph_module)

    with recorder:
        RecordingInterpreter(graph_module, recorder).run(ONES)

    assert {(event.node, event.module) for event in recorder.trace.events} == {("_0", "0")}


@pytest.mark.parametrize(("is_on", "words"), [(True, "autocast to bfloat16 on cpu"), (False, "")])
def test_autocast_is_told(is_on, words):
    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_on):
            return torch.relu(x)

    assert [event.autocast for event in recorded(run, ONES).events if event.name == "relu"] == [words]
