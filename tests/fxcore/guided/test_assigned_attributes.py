"""Assignments of a traced forward: the graph writes tensors of the model, and a note names each other assignment."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError


class Holder(nn.Module):
    """A model with state of every kind. `forward` runs a function of model and input."""

    count = 0

    def __init__(self, run):
        super().__init__()
        self.run = run
        self.number, self.truth, self.text = 1, True, "a"
        self.tensor = torch.zeros(2)
        self.register_buffer("buffer", torch.zeros(2))
        self.weight = nn.Parameter(torch.zeros(2))
        self.items, self.table, self.pair = [], {"k": 1}, [torch.zeros(2), torch.ones(2)]
        self.flat, self.none, self.single = [self.weight, self.buffer], (), [self.weight]
        self.reference = weakref.ref(self.buffer)
        self.part = nn.Identity()
        self.part.number = 0

    def forward(self, x):
        self.run(self, x)
        return x


def traced(run, x=None):
    model = Holder(run)
    example = torch.ones(2) if x is None else x
    return model, fxcore.symbolic_trace(model, example_inputs=example, verify=False)


def notes_of(run, x=None):
    """Return the assigned places that the notes of a trace name."""
    _, graph_module = traced(run, x)
    notes = graph_module.graph.guards.notes
    assert all(note.startswith("forward assigns ") and note.endswith(", which the graph does not") for note in notes)
    return [note.removeprefix("forward assigns ").partition(",")[0] for note in notes]


def assigns(path, value):
    """Return a function that assigns an attribute; a function of model and input computes the value."""

    def run(model, x):
        owner, _, name = path.rpartition(".")
        setattr(model.get_submodule(owner), name, value(model, x) if callable(value) else value)

    return run


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("number", 2),
        ("number", 1.0),
        ("truth", 1),
        ("part.number", 5),
        ("new", lambda model, x: x + 1),
        ("tensor", lambda model, x: torch.ones(2)),
        ("tensor", None),
        ("buffer", lambda model, x: x[:1]),
        ("buffer", lambda model, x: x.double()),
        ("pair", lambda model, x: [model.pair[0]]),
        ("pair", lambda model, x: [model.pair[1], model.pair[0]]),
        ("pair", lambda model, x: tuple(model.pair)),
        ("reference", lambda model, x: weakref.ref(x)),
        ("items", lambda model, x: []),
        ("flat", lambda model, x: [model.weight]),
        ("flat", lambda model, x: [model.buffer, model.weight]),
        ("flat", lambda model, x: (model.weight, model.buffer)),
        ("flat", lambda model, x: {0: model.weight, 1: model.buffer}),
        ("none", lambda model, x: ("a",)),
    ],
)
def test_another_value_of_an_attribute_has_a_note(path, value):
    assert notes_of(assigns(path, value)) == [f"self.{path}"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("number", 1),
        ("truth", True),
        ("text", "a"),
        ("tensor", lambda model, x: model.tensor),
        ("buffer", lambda model, x: model.buffer),
        ("pair", lambda model, x: model.pair),
        ("flat", lambda model, x: [model.weight, model.buffer]),
        ("single", lambda model, x: [model.weight]),
        ("reference", lambda model, x: weakref.ref(model.buffer)),
    ],
)
def test_an_equal_value_of_an_attribute_has_no_note(path, value):
    assert notes_of(assigns(path, value)) == []


def test_a_value_that_needs_gradients_is_no_buffer():
    value = torch.ones(2, requires_grad=True)

    assert notes_of(assigns("buffer", lambda model, x: x * 2), value) == ["self.buffer"]


def grow_twice(model, x):
    model.items.append(x)
    model.items.append(1)


def write_item(model, x):
    model.table["k"] = 2


def add_key(model, x):
    model.table["other"] = 1


def count_calls(model, x):
    Holder.count += 1


@pytest.mark.parametrize(
    ("run", "place"),
    [
        (grow_twice, "self.items"),
        (write_item, "self.table['k']"),
        (add_key, "self.table"),
        (count_calls, "Holder.count"),
    ],
)
def test_a_change_of_a_container_or_class_has_one_note(run, place):
    assert notes_of(run) == [place]


def test_each_assignment_of_a_call_has_its_note():
    def run(model, x):
        model.buffer = x + 1  # a node, and the search goes on behind it
        model.text = "a"
        model.number = 2
        model.table["k"] = 2
        model.part.number = 5

    assert sorted(notes_of(run)) == ["self.number", "self.part.number", "self.table['k']"]


@pytest.mark.parametrize("name", ["tensor", "buffer"])
def test_the_graph_writes_a_tensor_that_replaces_another(name):
    model, graph_module = traced(assigns(name, lambda model, x: x + 1))

    graph_module(torch.tensor([4.0, 6.0]))

    assert getattr(model, name).tolist() == [5, 7]
    assert graph_module.graph.guards.notes == ()


def test_the_graph_writes_a_value_into_the_data_of_a_parameter():
    model, graph_module = traced(assigns("weight", lambda model, x: nn.Parameter(x)))

    graph_module(torch.tensor([4.0, 6.0]))

    assert model.weight.tolist() == [4, 6]
    assert model.weight.requires_grad


def test_a_write_of_another_form_is_refused_at_the_call():
    _, graph_module = traced(assigns("buffer", lambda model, x: x + 1))

    with pytest.raises(GuardError, match=r"shape"):
        graph_module(torch.ones(1))
    with pytest.raises(GuardError, match=r"dtype"):
        graph_module(torch.ones(2, dtype=torch.float64))


def test_a_tensor_in_a_container_is_written():
    def run(model, x):
        model.pair[0] = x + 1

    model, graph_module = traced(run)

    graph_module(torch.tensor([4.0, 6.0]))

    assert model.pair[0].tolist() == [5, 7]


def test_a_tensor_that_was_written_in_place_and_put_back_is_written_once():
    def run(model, x):
        buffer = model.buffer
        buffer += x
        model.buffer = buffer
        model.pair[0] += x

    model, graph_module = traced(run)

    graph_module(torch.ones(2))

    assert model.buffer.tolist() == model.pair[0].tolist() == [1, 1]
    assert not graph_module.graph.find_nodes(op="call_method", target="copy_")
    assert graph_module.graph.guards.notes == ()


def test_an_attribute_that_is_assigned_behind_a_constant_of_the_graph_has_a_note():
    def run(model, x):
        model.sum = x + torch.ones(2)
        model.fresh = 3

    assert notes_of(run) == ["self.sum", "self.fresh"]
