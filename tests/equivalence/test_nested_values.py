"""Nested values are walked part by part, each leaf under its path."""

from __future__ import annotations

import collections
import dataclasses
import functools

import torch
from torch.utils import _pytree as torch_pytree

from pytest_fxgraph.equivalence.nested_values import (
    ReadIterator,
    has_equality,
    parts_of,
    tensors_in,
    walk,
    with_iterators_read,
)

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    values: list[int]


class Registered:
    def __init__(self, inside: object) -> None:
        self.inside = inside


torch_pytree.register_pytree_node(
    Registered, lambda node: ([node.inside], None), lambda parts, _: Registered(next(iter(parts)))
)


def test_every_container_leads_to_its_leaves():
    value = {"a": [1, (2,)], 3: Pair(4, Record([5])), "r": Registered(6)}

    assert list(walk(value, "v")) == [
        ("v['a'][0]", 1),
        ("v['a'][1][0]", 2),
        ("v[3].first", 4),
        ("v[3].second.values[0]", 5),
        ("v['r'].<part 0>", 6),
    ]


def test_a_container_that_holds_itself_is_entered_once():
    value: list[object] = [1]
    value.append(value)

    assert list(walk(value, "v")) == [("v[0]", 1)]


def test_a_part_that_occurs_twice_is_met_twice():
    part = [torch.ones(1)]

    assert [path for path, _ in tensors_in((part, part), "v")] == ["v[0][0]", "v[1][0]"]


def test_attributes_of_a_users_container_are_parts_and_count_once():
    class Marked(dict):
        @functools.cached_property
        def total(self):
            return sum(self.values())

    marked = Marked(a=1.5)
    marked.scale, marked.a, marked.both, marked._hidden = 2, marked["a"], {"a": marked["a"]}, 3
    assert marked.total == 1.5

    assert parts_of(marked) == [("['a']", 1.5), (".scale", 2)]
    assert parts_of(collections.UserDict(a=1.5)) == [("['a']", 1.5)]


class Own(list):
    """A list of a user."""


def test_iterators_are_read_and_every_other_value_stays_itself():
    items = (1, 2)
    for value in ([1, [2]], (1, (2,)), {"a": [1]}, Own([iter(items)]), 3, collections.OrderedDict(a=iter(items))):
        assert with_iterators_read(value) is value

    assert with_iterators_read(iter(items)) == ReadIterator(items)
    assert with_iterators_read([1, iter(items)]) == [1, ReadIterator(items)]
    assert with_iterators_read((iter(items), 1)) == (ReadIterator(items), 1)
    assert with_iterators_read({"a": 1, "b": (iter(items),)}) == {"a": 1, "b": (ReadIterator(items),)}
    assert with_iterators_read(iter([iter(items), 3])) == ReadIterator((ReadIterator(items), 3))
    assert parts_of(ReadIterator(items)) == [("[0]", 1), ("[1]", 2)]


class Slots:
    __slots__ = ("value",)


class Plain:
    """Has attributes."""

    def __init__(self):
        self.second, self.first = 2, 1


class Equal(Plain):
    def __eq__(self, other):
        return True

    __hash__ = None


def enclosing(value):
    return lambda x, y=3: x + value


def test_objects_without_an_own_equality_have_their_attributes_as_parts():
    slots, half = Slots(), Record([1])
    slots.value = 4
    del half.values
    function, partial = enclosing(5), functools.partial(max, 1, key=abs)

    assert parts_of(Plain()) == [(".first", 1), (".second", 2)]
    assert parts_of(slots) == [(".value", 4)]
    assert parts_of(half) == []
    assert parts_of(partial) == [(".func", max), (".args", (1,)), (".keywords", {"key": abs})]
    assert parts_of(function) == [
        (".__code__", function.__code__), (".__defaults__", (3,)), (".__closure__", [5])
    ]  # fmt: skip
    assert parts_of(enclosing)[2] == (".__closure__", [])
    for leaf in (Equal(), torch.nn.ReLU(), torch.float32, torch.Generator(), Record, object(), 3, "a", max):
        assert parts_of(leaf) is None
    assert not has_equality(Plain())
    assert has_equality(Equal())
