from __future__ import annotations

import collections
import enum
import functools
import math
import re
import weakref

import pytest
import torch

from fxcore.state.containers import names_of
from fxcore.state.outer_values import (
    NO_RAW,
    OuterValue,
    OuterValues,
    WatchedObject,
    frozen,
    held_by,
    is_immutable,
    is_watched_class,
    shown_frozen,
    takes_attributes,
)


class Kind(enum.Enum):
    A = 1


class Holder:
    pass


SAME = [
    (lambda: 1.5, lambda: 1.5),
    (lambda: math.nan, lambda: float("nan")),
    (lambda: (1, [2, {"a": 3}]), lambda: (1, [2, {"a": 3}])),
    (lambda: {1, 2}, lambda: {2, 1}),
    (lambda: collections.deque([1]), lambda: collections.deque([1])),
    (lambda: functools.partial(torch.add, 1, out=None), lambda: functools.partial(torch.add, 1, out=None)),
    (lambda: torch.float32, lambda: torch.float32),
    (lambda: [torch.zeros(2)], lambda: [torch.ones(3)]),  # tensors are no plain values
    (lambda: Kind.A, lambda: Kind.A),
    (lambda: torch.relu, lambda: torch.relu),
]
OTHER = [
    (lambda: 1, lambda: 1.0),
    (lambda: True, lambda: 1),
    (lambda: 0.0, lambda: -0.0),
    (lambda: [1, 2], lambda: (1, 2)),
    (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    (lambda: {"a": None}, lambda: {"a": torch.zeros(2)}),
    (lambda: functools.partial(torch.add, 1), lambda: functools.partial(torch.add, 2)),
    (lambda: torch.relu, lambda: torch.tanh),
    (lambda: list(range(1000)), lambda: list(range(1001))),
    (lambda: Kind.A, lambda: 1),
]


@pytest.mark.parametrize(("expected", "obtained"), SAME)
def test_frozen_values_are_the_same(expected, obtained):
    assert frozen(expected()) == frozen(obtained())


@pytest.mark.parametrize(("expected", "obtained"), OTHER)
def test_frozen_values_tell_types_signs_and_orders_apart(expected, obtained):
    assert frozen(expected()) != frozen(obtained())


def test_another_object_with_the_read_attributes_is_the_same():
    first, second = Holder(), Holder()
    first.scale, second.scale, second.other = 1.0, 1.0, 2.0
    watched = WatchedObject(first)
    watched.read["scale"] = frozen(1.0)

    assert watched == frozen(second)
    second.scale = 2.0
    assert watched != frozen(second)
    assert shown_frozen(watched) == "Holder(scale=1.0)"


def test_an_object_of_another_class_is_another_one_and_a_gone_object_is_none():
    class Twin:
        scale = 1.0

    held = Holder()
    held.scale = 1.0
    watched = WatchedObject(held)
    watched.read["scale"] = frozen(1.0)

    assert watched != frozen(Twin())
    assert watched != frozen(1.0)
    assert (watched.is_object(held), watched.is_object(Holder())) == (True, False)
    del held
    assert not watched.is_object(None)


@pytest.mark.parametrize(
    ("kind", "takes", "is_watched"),
    [
        (Holder, True, True),
        (type("Items", (list,), {}), True, False),
        (type("Failure", (ValueError,), {}), True, False),
        (type("Layer", (torch.nn.Module,), {}), True, False),
        (type("Meta", (type,), {}), True, False),
        (torch.nn.Module, True, False),
        (collections.OrderedDict, False, False),
        (re.Pattern, False, False),
        (int, False, False),
        (Kind, False, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_reads_are_watched_on_classes_of_users_that_take_attributes(kind, takes, is_watched):
    assert (takes_attributes(kind), is_watched_class(kind)) == (takes, is_watched)


def value_of(holder, name, value):
    raw = value if is_immutable(value) else NO_RAW
    by = functools.partial(held_by, weakref.ref(holder), names_of)
    return OuterValue(by, name, f"holder.{name}", frozen(value), raw, [value_of.__code__], 1)


def test_the_first_change_is_told_until_the_holder_is_gone():
    holder = Holder()
    holder.number, holder.items = 1, [1, 2]
    values = OuterValues([value_of(holder, "number", 1), value_of(holder, "items", [1, 2])])

    assert values.first_change() is None
    holder.items.append(3)
    assert [values.first_change()[0].text, *values.first_change()[0].shown_change([1, 2, 3])] == [
        *("holder.items", "[1, 2]", "[1, 2, 3]")
    ]
    del holder.number
    assert values.first_change()[0].shown_change(values.first_change()[1]) == ("1", "missing")
    del holder
    assert values.first_change() is None


def makes_reader(holder):
    holder.size = 1

    def reader():
        other = holder.other
        return (
            other,
            holder.size,
        )

    return reader


def value_read_by(*codes):
    return OuterValue(None, "size", "holder.size", 1, 1, [*codes], loads=("LOAD_ATTR",))


def test_the_line_of_a_read_is_in_the_code_or_in_a_function_inside_and_a_write_is_no_read():
    value = value_read_by(value_of.__code__, makes_reader.__code__)
    line = makes_reader.__code__.co_firstlineno + 7

    assert value.line_of_read() == line
    assert value.codes == [makes_reader.__code__]
    assert value.place == f"{makes_reader.__code__.co_filename}:{line}: holder.size,"
    assert value_read_by(makes_reader(Holder()).__code__).line_of_read() == line
    assert value_read_by(value_of.__code__).line_of_read() == 0
