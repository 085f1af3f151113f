"""Attributes of classes and variables of enclosing functions are found, named and restored."""

from __future__ import annotations

import functools
from typing import ClassVar

import torch
from torch import nn

from fxcore.state.outer_state import Attributes, OuterState
from fxcore.state.snapshot import Snapshot, state_kept


class Counted(nn.Module):
    calls = 0
    tensors: ClassVar = {"sum": torch.zeros(2)}

    def forward(self, x):
        return x


def hooked():
    kept = []
    model = Counted()
    model.register_forward_hook(lambda module, args, output: kept.append(output))
    return model, kept


def test_values_of_classes_and_hooks_are_listed_by_path():
    model, kept = hooked()

    found = dict(OuterState([("", model)]).values)

    assert found["Counted.tensors"] is Counted.tensors
    assert any(value is kept for value in found.values())


def test_partials_and_methods_lead_to_their_owners():
    owner, tensor = nn.Linear(2, 2), torch.zeros(2)

    found = OuterState([], [functools.partial(owner.forward, tensor)]).values

    assert [value for _, value in found] == [tensor, owner]


def test_classes_of_libraries_are_left_alone():
    found = OuterState([("", nn.Linear(2, 2))])

    assert found.readings == found.values == []


def test_classes_variables_and_their_tensors_are_restored():
    model, kept = hooked()

    with state_kept(model, parameters=True):
        model(torch.ones(2))
        Counted.calls = 5
        Counted.tensors["sum"].add_(1)
        Counted.added = True

    assert (kept, Counted.calls, hasattr(Counted, "added")) == ([], 0, False)
    assert not Counted.tensors["sum"].any()


def test_a_parameter_is_copied_before_its_first_write_and_restored():
    model = nn.Linear(2, 2)
    before = Snapshot(model)

    with state_kept(model, parameters=True):
        model.weight.data.mul_(2)
        with torch.no_grad():
            torch._foreach_add_([model.bias], 1)

    assert not before.changes()


def test_without_parameters_a_written_parameter_stays_written():
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(1)

    with state_kept(model):
        model.weight.data.mul_(2)

    assert model.weight.eq(2).all()


STEPS = 0


def counts(x):
    global STEPS
    STEPS += 1

    def resets():
        global MADE
        MADE = 1

    resets()
    return x


def test_globals_that_a_function_assigns_are_restored():
    with state_kept(None, functions=[counts]):
        counts(1)

    assert STEPS == 0
    assert "MADE" not in globals()


def test_the_variables_of_a_function_are_followed_and_put_back():
    numbers, tensor, layer = [1], torch.zeros(2), nn.Linear(1, 1)

    def inner():
        return numbers

    def outer():
        return inner, tensor, layer, later, size

    size = 3
    state = OuterState([("block", Counted())], [outer])
    paths = {path for path, _ in state.values}
    assert {"outer.tensor", "outer.layer", "outer.numbers"} <= paths
    assert "outer.size" not in paths
    assert not any("later" in path for path in paths)
    readings = {reading.path: reading for reading in state.readings}
    assert {"outer.size", "outer.inner", "outer.numbers"} <= readings.keys()

    before = readings["outer.size"].read()
    size = 4
    assert readings["outer.size"].read() != before
    readings["outer.size"].write(before)
    later = 1
    assert (size, outer()[3]) == (3, 1)


def test_functions_in_attributes_and_hooks_of_every_kind_are_looked_at():
    model, kept, seen = nn.Linear(1, 1), [], {}
    model.function = lambda: kept
    model.partial = functools.partial(model.function, seen, key=kept)
    model.register_forward_pre_hook(lambda *_: None)
    model.register_full_backward_hook(lambda *_: seen)

    values = [value for _, value in OuterState([("layer", model)]).values]

    assert sum(value is kept for value in values) >= 2
    assert sum(value is seen for value in values) >= 2


class Callable:
    def __call__(self):
        return self


def test_an_object_that_is_called_is_followed_itself():
    called = Callable()

    assert OuterState([], [called]).values == [("", called)]


LIST, NUMBER, TENSOR = [1], 1, torch.zeros(1)


def reads():
    return LIST, NUMBER, TENSOR, OuterState


def test_containers_and_tensors_in_globals_are_followed():
    assert OuterState([], [reads]).values == [("LIST", LIST), ("TENSOR", TENSOR)]
    assert OuterState([], [reads]).readings == []


def test_attributes_of_a_class_are_the_same_objects_or_others():
    class Kind:
        first, second = [1], 2

    before = Attributes(vars(Kind))
    assert before == Attributes(vars(Kind))
    assert before != Attributes({})
    assert before != vars(Kind)
    Kind.first, Kind.third = [1], 3
    assert before != Attributes(vars(Kind))
    del Kind.second

    before.give_to(Kind)

    assert before == Attributes(vars(Kind))
    assert (Kind.second, hasattr(Kind, "third")) == (2, False)


class Furnished(nn.Module):
    size: int = 3
    helper = functools.partial(print)
    table: ClassVar = {}

    def forward(self, x):
        return x


def test_of_a_class_the_attributes_that_may_change_inside_are_followed():
    assert OuterState([("", Furnished())]).values == [("Furnished.table", Furnished.table)]
