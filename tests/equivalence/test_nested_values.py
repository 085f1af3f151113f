"""Nested values are walked part by part, each leaf under its path."""

from __future__ import annotations

import collections
import dataclasses

import torch
from torch.utils import _pytree as torch_pytree

from pytest_fxgraph.equivalence.nested_values import tensors_in, walk

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
