from __future__ import annotations

import collections

import pytest
import torch

from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.errors import FxError
from fxcore.immutable_collections import immutable_dict, immutable_list
from fxcore.node import map_arg
from fxcore.node_data.arguments import freeze, map_values, replace_value

Point = collections.namedtuple("Point", "x y")


def test_mapping_keeps_structure_and_types_as_torch_fx_does():
    def mapped(fx):
        x = fx.Graph().placeholder("x")
        argument = [x, (x, 1), {"k": slice(x, None, 2)}, Point(x, 2), torch.Size([1]), range(3), None, "text"]
        nodes_only = fx.node.map_arg(argument, lambda node: f"<{node}>")
        all_leaves = fx.node.map_aggregate(argument, lambda leaf: type(leaf).__name__)
        return [(type(item).__name__, item) for item in [*nodes_only, *all_leaves]]

    assert_same(mapped)


def test_mapping_with_something_that_is_no_function_is_refused():
    with pytest.raises(AssertionError, match=r"map_arg\(a, fn\): fn must be a callable, and 3 is not") as caught:
        map_arg([1], 3)

    assert isinstance(caught.value, FxError)


def test_freezing_collects_each_value_once_in_reading_order():
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    seen = {}

    frozen = freeze(([b, {"k": a}], slice(b, None), Point(a, b)), seen)

    assert list(seen) == [b, a]
    assert [type(frozen[0]).__name__, type(frozen[0][1]).__name__] == ["immutable_list", "immutable_dict"]
    assert frozen[2] == Point(a, b)


GRAPH = Graph()
A, B, C = (GRAPH.placeholder(name) for name in "abc")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ((A, B, 1), (C, B, 1)),
        ((1, "a", None, [A]), (1, "a", None, [C])),
        (immutable_list([B, (A, A)]), [B, (C, C)]),
        (immutable_dict(k=A, m=(B, [A])), {"k": C, "m": (B, [C])}),
        (slice(A, B, None), slice(C, B, None)),
        (Point(A, B), Point(C, B)),
        (A, C),
        (B, B),
        (torch.float32, torch.float32),
        ((), ()),
    ],
    ids=str,
)
def test_a_value_is_replaced_in_every_place_and_other_values_stay(argument, expected):
    for replaced in (replace_value(argument, A, C), map_values(argument, lambda value: C if value is A else value)):
        assert replaced == expected
        assert type(replaced) is type(argument)


@pytest.mark.parametrize(
    "argument", [(A, 1, [B], {"k": A}, torch.float32), [A, (B,), 1], A, 1, immutable_list([A, 2])], ids=str
)
def test_only_nodes_are_handed_to_the_function(argument):
    seen = []

    map_arg(argument, seen.append)
    map_values(argument, seen.append)

    assert set(seen) <= {A, B}
    assert len(seen) % 2 == 0
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert bool(seen) == (argument != 1)


@pytest.mark.parametrize("argument", [[A, 1], {"k": [A]}, slice(A), A, 3, torch.float32, (1, 2), (A, [1])], ids=str)
def test_freezing_changes_nothing_but_the_kind_of_containers(argument):
    seen = {}

    assert freeze(argument, seen) == argument
    assert list(seen) == [A] * (argument not in (3, torch.float32, (1, 2)))
    assert freeze((1, A), {}) is not freeze([1, A], {})
    assert (type(freeze([1], {})), type(freeze({}, {}))) == (immutable_list, immutable_dict)
