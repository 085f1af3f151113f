from __future__ import annotations

import collections
from typing import Any, NamedTuple

import pytest
from torch.utils._pytree import tree_flatten

import fxcore
from fxcore import _pytree
from fxcore._pytree import register_pytree_flatten_spec, tree_flatten_spec
from fxcore.errors import FxError


def test_leaves_come_in_the_order_of_the_recorded_tree():
    _, spec = tree_flatten({"b": 1, "a": [2, (3,)]})

    assert tree_flatten_spec({"a": [20, (30,)], "b": 10, "more": 0}, spec) == [10, 20, 30]


class Pair(NamedTuple):
    a: Any
    b: Any


def test_a_graph_with_a_named_tuple_as_its_input_is_traced_again():
    traced = fxcore.symbolic_trace(lambda pair: pair.a - pair.b, concrete_args={"pair": Pair(fxcore.PH, fxcore.PH)})

    again = fxcore.symbolic_trace(traced)

    assert again(Pair(5, 3)) == 2


def test_a_container_that_nobody_registered_must_be_alike():
    _, spec = tree_flatten(collections.OrderedDict(a=1))

    assert tree_flatten_spec(collections.OrderedDict(a=5), spec) == [5]
    with pytest.raises(RuntimeError, match=r"Real spec .* is different from expected spec") as caught:
        tree_flatten_spec(collections.OrderedDict(b=5), spec)
    assert isinstance(caught.value, FxError)


@pytest.fixture
def _registrations_are_left_as_they_were(monkeypatch):
    # They are for good, and other tests compare them with torch.fx's.
    monkeypatch.setattr(_pytree, "SUPPORTED_NODES", dict(_pytree.SUPPORTED_NODES))
    monkeypatch.setattr(_pytree, "SUPPORTED_NODES_EXACT_MATCH", dict(_pytree.SUPPORTED_NODES_EXACT_MATCH))


@pytest.mark.usefixtures("_registrations_are_left_as_they_were")
def test_a_registered_container_gives_what_its_function_says():
    _, spec = tree_flatten(collections.deque([1, 2]))

    register_pytree_flatten_spec(collections.deque, lambda items, _: list(items)[:2])

    assert tree_flatten_spec(collections.deque([7, 8, 9]), spec) == [7, 8]


@pytest.mark.usefixtures("_registrations_are_left_as_they_were")
def test_a_registration_can_be_taken_back():
    register_pytree_flatten_spec(collections.deque, lambda items, _: list(items))
    _pytree._deregister_pytree_flatten_spec(collections.deque)

    assert collections.deque not in _pytree.SUPPORTED_NODES
    assert collections.deque not in _pytree.SUPPORTED_NODES_EXACT_MATCH


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_a_container_tells_whether_it_has_exactly_the_recorded_children(kind):
    def filled(count):
        return kind([(number, number) for number in range(count)])

    _, spec = tree_flatten(filled(2) if kind is dict else kind([1, 2]))
    has_exactly = _pytree.SUPPORTED_NODES_EXACT_MATCH[kind]

    assert [has_exactly(filled(count), spec) for count in range(4)] == [False, False, True, False]
