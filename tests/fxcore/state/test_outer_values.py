from __future__ import annotations

import argparse
import collections
import dis
import enum
import functools
import math
import re
import types
import weakref

import numpy
import pytest
import torch

from fxcore.state.changes import MISSING
from fxcore.state.containers import names_of
from fxcore.state.outer_values import (
    NO_RAW,
    Attributes,
    OuterValue,
    OuterValues,
    WatchedObject,
    cells_of,
    frozen,
    given,
    held_by,
    is_immutable,
    is_watched_class,
    reference_to,
    shown_frozen,
    takes_attributes,
)


class Kind(enum.Enum):
    A = 1


class Holder:
    def method(self):
        return self


HOLDER = Holder()


class Refuses(type):
    def __setattr__(cls, name, value):
        raise AttributeError(name)


class OfRefusing(metaclass=Refuses):
    """An object whose reads cannot be watched."""

    def __init__(self, size):
        self.size = size


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


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
    (lambda: [0] * 200, lambda: [1] * 200),  # of more than 199 parts the number alone counts
    (lambda: [[0] * 98, [0] * 100], lambda: [[0] * 98, [1] * 100]),  # of both together
    (lambda: HOLDER.method, lambda: HOLDER.method),
    (lambda: makes_reader, lambda: makes_reader),
    (lambda: Holder, lambda: Holder),
    (lambda: types.SimpleNamespace(a=[1]), lambda: types.SimpleNamespace(a=[1])),
    (lambda: argparse.Namespace(a=1), lambda: argparse.Namespace(a=1)),
    (lambda: OfRefusing(1), lambda: OfRefusing(1)),
    (lambda: re.compile("a"), lambda: re.compile("b")),  # an object of a library
    (lambda: torch.nn.Linear(1, 1), lambda: torch.nn.Linear(2, 2)),
    (lambda: frozenset((1, "a")), lambda: frozenset(("a", 1))),
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
    (lambda: [0] * 199, lambda: [1] * 199),
    (lambda: [[0] * 98, [0] * 98], lambda: [[0] * 98, [1] * 98]),
    (lambda: HOLDER.method, lambda: Holder().method),
    (lambda: HOLDER.method, lambda: makes_reader),
    (lambda: makes_reader, lambda: value_of),
    (lambda: Holder, lambda: Slotted),
    (lambda: types.SimpleNamespace(a=[1]), lambda: types.SimpleNamespace(a=[2])),
    (lambda: argparse.Namespace(a=1), lambda: argparse.Namespace(b=1)),
    (lambda: OfRefusing(1), lambda: OfRefusing(2)),
    (lambda: {1: 2}, lambda: collections.OrderedDict({1: 2})),
    (lambda: {1, 2}, lambda: {1, 3}),
    (lambda: functools.partial(torch.add, 1), lambda: functools.partial(torch.mul, 1)),
    (lambda: functools.partial(torch.add, a=1), lambda: functools.partial(torch.add, a=2)),
    (lambda: math.nan, lambda: 1.0),
]


@pytest.mark.parametrize(
    ("values", "are_told_apart"),
    [
        (lambda: (numpy.zeros(199), numpy.ones(199)), True),
        (lambda: (numpy.zeros(200), numpy.ones(200)), False),
        (lambda: (numpy.zeros(2), numpy.zeros(2, dtype=numpy.int64)), True),
        (lambda: (numpy.array([[]], dtype=object), numpy.array([None], dtype=object)), False),
        (lambda: (numpy.float32(1), numpy.float32(2)), True),
        (lambda: ([0] * 198, [0] * 199), True),
    ],
)
def test_arrays_of_up_to_199_numbers_are_told_apart_by_their_contents(values, are_told_apart):
    first, second = values()

    assert (frozen(first) != frozen(second)) is are_told_apart
    assert frozen(first) == frozen(values()[0])


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (-0.0, "-0.0"),
        (1j, "1j"),
        ("a", "'a'"),
        ([1, "a", 2.0], "[1, 'a', 2.0]"),
        ((1, [2]), "(1, [2])"),
        (collections.deque([1, 2]), "(1, 2)"),
        ({"a": [1], 2: None}, "{'a': [1], 2: None}"),
        (collections.OrderedDict(a=1), "{'a': 1}"),
        ({2, 1, "a"}, "{'a', 1, 2}"),
        ([0] * 1000, "1000"),
        (Kind.A, "<Kind.A: 1>"),
        (Holder.method, "Holder.method"),
        (Holder, "Holder"),
        (MISSING, "missing"),
        (torch.ones(1), "a Tensor"),
        (Holder(), "Holder()"),
        (types.SimpleNamespace(a=[1]), "SimpleNamespace({'a': [1]})"),
        (OfRefusing(1), "OfRefusing({'size': 1})"),
    ],
)
def test_a_frozen_value_is_shown_as_the_value_was(value, text):
    assert shown_frozen(frozen(value)) == text


def test_a_function_that_is_gone_has_no_name():
    def gone():
        return None

    reference = frozen(gone)
    del gone

    assert shown_frozen(reference) == "a function that is gone"


@pytest.mark.parametrize(
    ("value", "is_so"),
    [
        (1, True),
        (None, True),
        (torch.float32, True),
        ((1, "a"), True),
        ((1, (Kind.A, MISSING)), True),
        (MISSING, True),
        (Kind.A, True),
        (Holder.method, True),
        (lambda holder=HOLDER: holder, True),
        (torch.relu, True),
        (Holder, True),
        ((1, [2]), False),
        ([], False),
        (HOLDER.method, False),
        ((lambda holder: lambda: holder)(HOLDER), False),
        (torch.ones(1), False),
        (HOLDER, False),
    ],
)
def test_a_value_without_parts_that_could_change_is_immutable(value, is_so):
    assert is_immutable(value) is is_so


def test_an_object_without_weak_references_is_kept():
    slotted, holder = Slotted(1), Holder()
    of_slotted, of_holder = reference_to(slotted), reference_to(holder)

    assert (of_slotted() is slotted, of_holder() is holder) == (True, True)
    del slotted, holder
    assert of_slotted().size == 1
    assert of_holder() is None
    assert held_by(of_holder, names_of) is None


def test_attributes_of_classes_and_objects_are_their_own():
    class Derived(Slotted):
        own = 1
        watched = types.SimpleNamespace(behind_watch=2)

    assert [Attributes(Derived).get(name, 0) for name in ("own", "watched", "size", "none")] == [1, 2, 0, 0]
    assert [Attributes(Derived(3)).get(name, 0) for name in ("own", "size", "none")] == [1, 3, 0]


def test_variables_that_a_function_encloses_are_read_unless_they_are_empty():
    full = 1

    def function():
        return full, empty

    assert cells_of(function) == {"full": 1}
    assert cells_of(Holder.method) == {}
    empty = 2
    assert cells_of(function) == {"full": 1, "empty": 2}


def test_the_values_of_watched_objects_are_found_by_identity():
    holder = Holder()
    watched = WatchedObject(holder)

    assert frozen([holder], {id(holder): watched})[1][0] is watched
    assert frozen([holder])[1][0] is not watched
    assert frozen([holder]) == frozen([holder])
    assert (watched == 1, watched == WatchedObject(Slotted(1))) == (False, False)


def test_a_missing_attribute_is_another_value():
    first, second = Holder(), Holder()
    watched = WatchedObject(first)
    watched.read["size"] = frozen(MISSING)

    assert watched == WatchedObject(second)
    second.size = 1
    assert watched != WatchedObject(second)


def changes(expected, found, *codes, raw=NO_RAW, line=1, loads=()):
    value = OuterValue(None, "size", "holder.size", frozen(expected), raw, [*codes], line, loads)
    return value.differs(found)


def test_a_value_differs_if_it_is_another_one_that_the_code_reads():
    shared = [1]
    code = makes_reader.__code__

    assert changes(1, 2, code)
    assert not changes(1, 1, code)
    assert not changes(1, shared, code, raw=shared)
    assert not changes(1, 2, value_of.__code__, line=0, loads=("LOAD_ATTR",))
    assert changes(1, 2, code, line=0, loads=("LOAD_ATTR",))


def test_a_watched_object_differs_if_it_is_not_the_object_and_gives_other_answers():
    first, second = Holder(), Holder()
    first.size, second.size = 1, 2
    watched = WatchedObject(first)
    watched.read["size"] = frozen(1)
    value = OuterValue(None, "held", "held", watched, NO_RAW, [makes_reader.__code__], 1)
    first.size = 5

    assert not value.differs(first)
    assert value.differs(second)
    assert value.shown_change(second) == ("Holder(size=1)", "Holder(size=2)")
    assert value.shown_change(3) == ("Holder(size=1)", "3")


def stores(cache, key):
    cache[key] = 1


def sets_default(cache, key):
    return cache.setdefault(key, 1)


def updates(cache, key):
    cache.update({key: 1})


def looks_up(cache, key):
    return cache.get(key)


@pytest.mark.parametrize(
    ("expected", "found", "is_cache"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2, "a": 1}, True),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3, "a": 1}, False),  # another order
        ({"a": 1}, {"a": 2, "b": 2}, False),
        ({"a": 1}, {"b": 2}, False),
        ({}, {"a": 1}, True),
        ({"a": 1}, collections.OrderedDict(a=1, b=2), False),
        ({"a": 1}, 1, False),
        ({"a": 1}, "ab", False),
        ([1], [1, 2], False),
        (1, {"a": 1}, False),
        (dict.fromkeys(range(300)), dict.fromkeys(range(301)), True),
        (dict.fromkeys(range(50)), dict.fromkeys(range(300)), False),
        (dict.fromkeys(range(300)), dict.fromkeys(range(50)), True),
    ],
)
def test_a_dict_that_grows_is_a_cache_if_the_code_adds_items(expected, found, is_cache):
    for adds in (stores, sets_default, updates):
        assert changes(expected, found, adds.__code__) is not is_cache
        assert changes(expected, found, looks_up.__code__, adds.__code__) is not is_cache
    assert changes(expected, found, looks_up.__code__)


def test_a_text_of_more_than_80_characters_is_cut_in_a_message():
    value = OuterValue(None, "sizes", "sizes", frozen([100, *[1] * 25]), NO_RAW, [])

    expected, present = value.shown_change([1000, *[1] * 25])

    assert expected == f"[100, {', '.join(['1'] * 25)}]"
    assert (len(expected), len(present)) == (80, 80)
    assert present == f"[1000, {'1, ' * 25}"[:77] + "..."


def test_values_of_globals_and_of_classes_are_asked_for_too():
    names, holder = {"a": 1, "b": [1]}, Holder()
    holder.size = 1
    watched = [
        OuterValue(functools.partial(given, names), name, name, frozen(names[name]), raw, [value_of.__code__], 1)
        for name, raw in (("a", 1), ("b", NO_RAW))
    ]
    by_class = functools.partial(held_by, weakref.ref(Holder), Attributes)
    watched.append(OuterValue(by_class, "scale", "scale", frozen(MISSING), MISSING, [value_of.__code__], 1))
    values = OuterValues([*watched, value_of(holder, "size", 1)])

    assert (len(values), values.first_change()) == (4, None)
    Holder.scale = 2
    assert values.first_change() == (watched[2], 2)
    names["b"] = [2]
    assert values.first_change() == (watched[1], [2])
    del names["a"]
    assert values.first_change() == (watched[0], MISSING)
    holder.size = 2
    assert values.first_change()[1] == 2
    del Holder.scale, holder
    names.update(a=1, b=[1])
    assert values.first_change() is None


def test_a_place_without_source_is_file_and_line():
    code = compile("size", "nowhere.py", "exec")

    assert OuterValue(None, "size", "size", 1, 1, [code], 7).place == "nowhere.py:7"


def function_of(*lines):
    names = {}
    exec("\n    ".join(["def function(cache):", *lines]), names)
    return names["function"].__code__


def test_the_line_of_a_read_is_the_line_that_begins_with_it():
    code = function_of("first = 1", "second = size", "third = 3")
    value = OuterValue(None, "size", "size", 1, 1, [code], loads=("LOAD_GLOBAL",))

    assert value.line_of_read() == 3


def test_the_number_of_a_constant_is_not_taken_for_the_storing_of_an_item():
    code = function_of(*[f"number = {number}.5" for number in range(dis.opmap["STORE_SUBSCR"] + 2)])

    assert dis.opmap["STORE_SUBSCR"] in code.co_code[1::2]
    assert changes({"a": 1}, {"a": 1, "b": 2}, code)
