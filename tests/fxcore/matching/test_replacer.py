"""Patterns and replacements that return several values (pytorch#137280, #159613, #162019)."""

from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter

import fxcore
from fxcore.matching.replacer import pair_outputs


def program(x):
    return torch.relu(x) - torch.neg(x).sum()


def rewritten(fx, pattern, replacement):
    traced = fx.symbolic_trace(program)
    fx.subgraph_rewriter.replace_pattern(traced, pattern, replacement)
    return traced


def test_nested_outputs_are_paired_level_by_level():
    pattern, replacement = (
        lambda x: (torch.relu(x), (torch.neg(x),)),
        lambda x: (torch.sigmoid(x), (torch.tanh(x),)),
    )
    x = torch.randn(3)

    theirs, ours = rewritten(torch.fx, pattern, replacement), rewritten(fxcore, pattern, replacement)

    # A tuple came into the place of a tensor.
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'sum'"):
        theirs(x)
    assert torch.equal(ours(x), torch.sigmoid(x) - torch.tanh(x).sum())


def test_outputs_in_dicts_are_paired_by_key():
    pattern, replacement = (
        lambda x: {"a": torch.relu(x), "b": torch.neg(x)},
        lambda x: {"b": torch.tanh(x), "a": torch.sigmoid(x)},
    )
    x = torch.randn(3)

    theirs, ours = rewritten(torch.fx, pattern, replacement), rewritten(fxcore, pattern, replacement)

    # The keys themselves came into the place of tensors.
    assert "'b' - " in theirs.code
    assert torch.equal(ours(x), torch.sigmoid(x) - torch.tanh(x).sum())


def test_a_value_may_be_returned_twice():
    def twice(function):
        return lambda x: (function(x),) * 2

    with pytest.raises(AssertionError, match="Returning nodes count mismatch: 1 vs 2"):
        rewritten(torch.fx, twice(torch.relu), twice(torch.tanh))
    assert "torch.tanh" in rewritten(fxcore, twice(torch.relu), twice(torch.tanh)).code


def test_a_constant_may_take_the_place_of_a_value():
    def pattern(x):
        return torch.relu(x)

    def replacement(x):
        return 3.0

    with pytest.raises(TypeError, match="object of type 'float' has no len"):
        rewritten(torch.fx, pattern, replacement)
    assert rewritten(fxcore, pattern, replacement)(torch.ones(2)) == 5.0


def test_an_operator_that_the_graph_lacks_means_no_match():
    def pattern(x):
        return torch.relu(x), torch.tanh(x)

    with pytest.raises(KeyError):
        rewritten(torch.fx, pattern, pattern)
    assert "torch.relu" in rewritten(fxcore, pattern, lambda x: (x, x)).code


def test_lists_and_tuples_are_the_same_structure():
    ours = rewritten(fxcore, lambda x: [torch.relu(x), torch.neg(x)], lambda x: (torch.sin(x), torch.cos(x)))

    assert "sin - " in ours.code


def test_values_are_paired_in_reading_order_where_the_structures_differ():
    graph = fxcore.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")

    assert pair_outputs((a, (b,)), [a, b], [1, 2]) == [(a, 1), (b, 2)]


def test_another_number_of_values_is_refused_with_both_outputs():
    with pytest.raises(
        AssertionError, match=r"count mismatch: 1 vs 2: the pattern returns relu, the replacement \(x, x"
    ):
        rewritten(fxcore, lambda x: torch.relu(x), lambda x: (x, x))


def test_outputs_of_other_forms_are_paired_in_reading_order():
    graph = fxcore.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")

    assert pair_outputs({"k": a, "l": b}, [a, b], [1, 2]) == [(a, 1), (b, 2)]
    assert pair_outputs({"k": a, "l": b}, [a, b], {"m": 1, "n": 2}) == [(a, 1), (b, 2)]
    assert pair_outputs([a, None], [a], [b, None]) == [(a, b)]
    with pytest.raises(AssertionError, match="Returning nodes count mismatch: 1 vs 2"):
        pair_outputs([a, None], [a], [1, b])
