"""Patterns and replacements that return several values (pytorch#137280, #159613, #162019)."""

from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter

import fxcore
from fxcore.matching.replacer import ReplacingGraph, pair_outputs


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


@pytest.mark.parametrize(
    ("pattern", "replacement", "is_taken"),
    [
        (lambda x, y: torch.relu(x), lambda x, y: torch.neg(x), True),
        (lambda x, y: torch.relu(x), lambda x, y: torch.neg(x) + y, False),
        (lambda x, y: torch.relu(x) + y, lambda x, y: torch.neg(x) + y, True),
        (lambda x, y: torch.relu(x) + y, lambda x, y: torch.neg(x), True),
    ],
)
def test_a_parameter_that_the_pattern_does_not_use_has_no_value_for_the_replacement(pattern, replacement, is_taken):
    traced = fxcore.symbolic_trace(lambda x, z: torch.relu(x) + z)

    if is_taken:
        assert len(fxcore.replace_pattern(traced, pattern, replacement)) == 1
        traced.graph.lint()
    else:
        with pytest.raises(AssertionError, match="the replacement uses its parameter 'y', but the pattern's, 'y',"):
            fxcore.replace_pattern(traced, pattern, replacement)


@pytest.mark.parametrize("has_input", [False, True])
def test_a_replacement_without_a_return_gives_none(has_input):
    graph, pattern = fxcore.Graph(), fxcore.symbolic_trace(lambda x: torch.relu(x)).graph
    if has_input:
        graph.placeholder("x")
    x, relu, _ = pattern.nodes

    made = ReplacingGraph(graph, relu, [relu], [x])

    assert made.successors == [(relu, None)]
    assert (len(made.inputs), made.body, made.read_inputs) == (int(has_input), [], [])


def test_inputs_that_a_replacement_reads_and_returns_are_told_apart():
    def replacement(a, b, c, d):
        return torch.neg(a), b, torch.exp(c)

    pattern = fxcore.symbolic_trace(lambda a, b, c, d: (a + b, a - c, d)).graph
    output = pattern.output_node()

    made = ReplacingGraph(
        fxcore.symbolic_trace(replacement).graph, output.args[0], list(output.all_input_nodes), [*pattern.nodes][:4]
    )

    assert [node.name for node in made.read_inputs] == ["a", "b", "c"]
    assert [node.name for node in made.inputs_computed_with] == ["a", "c"]
    assert [(str(node), str(each)) for node, each in made.returned_inputs] == [("sub", "b")]
    assert made.unmatched == []


def test_a_call_without_a_value_is_replaced_behind_its_inputs():
    def program(x):
        y = torch.neg(x)
        torch._assert(y, "first")
        return torch.exp(x)

    def pattern(x):
        torch._assert(x, "first")

    def replacement(x):
        torch._assert(x, "second")

    traced = fxcore.symbolic_trace(program)

    assert len(fxcore.replace_pattern(traced, pattern, replacement)) == 1
    assert [node.name for node in traced.graph.nodes] == ["x", "neg", "_assert_1", "exp", "output"]


@pytest.mark.parametrize("hooks", [False, True])
def test_a_pattern_that_returns_an_input_gives_its_readers_the_new_value(hooks):
    traced = fxcore.symbolic_trace(lambda x: (torch.neg(torch.relu(x)), torch.exp(x)))
    if hooks:
        traced._register_erase_node_hook(lambda node: None)

    found = fxcore.replace_pattern(traced, lambda x: (x, torch.relu(x)), lambda x: (y := torch.abs(x), torch.sin(y)))

    assert len(found) == 1
    traced.graph.lint()
    x = torch.tensor([-1.0])
    assert torch.equal(traced(x)[0], -torch.sin(torch.ones(1)))
    assert torch.equal(traced(x)[1], torch.exp(torch.ones(1)))
