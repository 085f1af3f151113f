"""Facts about code objects, and the functions that code may reach."""

from __future__ import annotations

import functools
import math

import torch
from torch import nn

from fxcore.tracing.code_facts import facts_of_code, reachable_functions, read_names, stored_names


def facts_of(function):
    return facts_of_code(function.__code__)


def test_the_values_that_are_compared_with_none():
    def compares(a, b, c, d):
        if a is None:
            return 1
        if b["key"] is not None or c.field is None or c[1, 2] is None:
            return 2
        found = [each for each in d if each is None]
        return found, a is not None

    assert facts_of(compares).compared_with_none == {"a", "key", "field", (1, 2), "each"}
    assert facts_of(lambda a, b: a == b).compared_with_none == frozenset()


def test_constants_that_are_compared_by_identity_are_told_from_values():
    constants = facts_of(lambda a: (a.dtype is torch.float32, a is True))
    values, results = facts_of(lambda a, b: a is b), facts_of(lambda a, b: a() is b())

    assert constants.compared_constants == {"float32", True}
    assert not constants.compares_values
    for facts in (values, results):
        assert facts.compares_values
        assert facts.compared_constants == frozenset()


def test_patterns_are_seen():
    def matches(value):
        match value:
            case [a, b]:
                return a, b

    assert facts_of(matches).has_patterns
    assert not facts_of(lambda value: value).has_patterns


def test_names_that_a_result_is_stored_in():
    def stores(pair):
        a, b = pair
        return a, b

    code = stores.__code__
    offsets = range(0, len(code.co_code), 2)
    assert ("a", "b") in [stored_names(code, offset) for offset in offsets]


def test_a_read_of_one_item_is_no_read_of_the_container():
    def reads(options, others):
        return options["mask"], list(others)

    assert read_names(reads.__code__) == {"others"}


def helper(x):
    return deeper(x)


def deeper(x):
    return x


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@decorated
def wrapped(x):
    return x


class Net(nn.Module):
    def forward(self, x):
        return self.inner(helper(wrapped(x)))

    def inner(self, x):
        return x * math.pi


def test_functions_are_reached_through_globals_methods_and_decorators():
    found = reachable_functions([(Net.forward, Net)])

    assert {each.function for each in found} >= {Net.forward, Net.inner, helper, deeper, wrapped.__wrapped__}
    assert {(each.name, each.holder is Net) for each in found} >= {("inner", True), ("helper", False)}


def test_a_function_in_a_closure_is_reached_behind_a_variable_without_value():
    def inner(x):
        return x

    def outer(x):
        return a_later(x) + inner(x)

    assert {each.function for each in reachable_functions([(outer, None)])} == {outer, inner}
    a_later = outer


def test_functions_of_torch_are_not_reached():
    assert reachable_functions([(nn.Linear.forward, nn.Linear)]) == []
