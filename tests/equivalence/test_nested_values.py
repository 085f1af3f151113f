"""Nested values are walked part by part, each leaf under its path."""

from __future__ import annotations

import collections
import dataclasses
import functools

import torch
from torch.utils import _pytree as torch_pytree

from pytest_fxgraph.equivalence.nested_values import parts_of, tensors_in, walk

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
