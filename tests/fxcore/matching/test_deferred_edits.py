"""Nodes after replacing: their order (pytorch#137280, #159613, #162019), and the same with hooks and without."""

from __future__ import annotations

import random

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter
from torch.nn import functional as F

import fxcore
from fixtures.random_calls import part_of, random_module
from fxcore.matching import deferred_edits
from fxcore.matching.deferred_edits import DeferredEdits


def names(graph):
    return [node.name for node in graph.nodes]


def reader_of_the_first_output_before_an_input(x, y):
    first = torch.relu(x)
    early = torch.neg(first)
    late = torch.sigmoid(y)
    return early * (first + late)


def both(x, late):
    first = torch.relu(x)
    return first, first + late


def both_at_once(x, late):
    total = torch.mul(x, late)
    return total, total


def rewrite_early_reader(fx):
    traced = fx.symbolic_trace(reader_of_the_first_output_before_an_input)
    fx.subgraph_rewriter.replace_pattern(traced, both, both_at_once)
    return traced


def test_an_input_that_stands_behind_a_reader_is_moved_before_the_replacement():
    theirs, ours = rewrite_early_reader(torch.fx), rewrite_early_reader(fxcore)

    with pytest.raises(RuntimeError, match="'sigmoid' of Node 'mul_1' was used before it has been defined"):
        theirs.graph.lint()
    ours.graph.lint()
    assert names(ours.graph) == ["x", "y", "sigmoid", "mul_1", "neg", "mul", "output"]
    x, y = torch.randn(3), torch.randn(3)
    total = x * torch.sigmoid(y)
    assert torch.equal(ours(x, y), torch.neg(total) * total)


def test_everything_that_a_late_input_needs_is_moved_with_it():
    def program(x, y):
        first = torch.relu(x)
        early = torch.neg(first)
        step = torch.abs(y)
        late = torch.sigmoid(step)
        return early * (first + late)

    traced = fxcore.symbolic_trace(program)
    x, y = torch.randn(3), torch.randn(3)

    fxcore.replace_pattern(traced, both, lambda x, late: (F.relu(x), F.relu(x) + late))

    traced.graph.lint()
    assert torch.equal(traced(x, y), program(x, y))


def test_nothing_moves_where_nothing_must():
    traced = fxcore.symbolic_trace(lambda x, y: torch.neg(torch.relu(x)) * torch.sigmoid(y))

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))

    assert names(traced.graph) == ["x", "y", "tanh", "neg", "sigmoid", "mul", "output"]


def rewrite_returning_an_input(fx):
    traced = fx.symbolic_trace(lambda x: torch.relu(x) * x)
    fx.subgraph_rewriter.replace_pattern(
        traced, lambda x: (x, torch.relu(x)), lambda x: (torch.neg(x), torch.sigmoid(x))
    )
    return traced


def test_a_replacement_does_not_read_what_it_puts_in_the_place_of_its_own_input():
    theirs, ours = rewrite_returning_an_input(torch.fx), rewrite_returning_an_input(fxcore)

    with pytest.raises(RuntimeError, match="'neg' of Node 'neg' was used before it has been defined"):
        theirs.graph.lint()
    ours.graph.lint()
    x = torch.randn(3)
    assert torch.equal(ours(x), torch.sigmoid(x) * torch.neg(x))


def test_matches_that_earlier_replacements_made_impossible_are_left():
    """Two matches that feed each other crosswise: merged into one node each, they would be a cycle."""

    def program(x, y):
        a = torch.relu(x)
        b = torch.neg(y)
        return torch.relu(b), torch.neg(a)

    traced = fxcore.symbolic_trace(program)

    def pair(x, y):
        return torch.relu(x), torch.neg(y)

    def mixed(x, y):
        total = x + y
        return total, total

    matches = fxcore.replace_pattern(traced, pair, mixed)

    traced.graph.lint()
    assert len(matches) >= 1


def test_a_chain_of_replacements_is_followed_to_its_end():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.relu, (x,))
    second = graph.call_function(torch.neg, ([first],))
    graph.output(second)
    edits = DeferredEdits(graph)

    edits.replace(first, x, edits.readers(first))
    edits.replace(second, 3.0, edits.readers(second))
    edits.discard([first, second])

    assert edits.resolve([first, {"a": second}]) == [x, {"a": 3.0}]
    edits.finish()
    assert str(graph).split("\n")[-1].strip() == "return 3.0"
    assert names(graph) == ["x", "output"]


def test_readers_are_listed_as_if_each_had_been_rewritten_at_once():
    def readers(fx):
        traced = fx.symbolic_trace(
            lambda x: [a := torch.neg(x), b := torch.neg(a), a + b, torch.neg(b) + a, torch.neg(a)]
        )
        fx.subgraph_rewriter.replace_pattern(traced, lambda x: torch.neg(x), lambda x: torch.relu(x) + x)
        return [(node.name, [user.name for user in node.users]) for node in traced.graph.nodes]

    assert readers(fxcore) == readers(torch.fx)


def test_a_wide_reader_is_rewritten_once():
    def program(x):
        return torch.cat([torch.relu(x) for _ in range(50)])

    traced = fxcore.symbolic_trace(program)
    rewritten: list[str] = []
    original = fxcore.Node._set_arguments

    def counted(reader, args, kwargs):
        rewritten.append(reader.name)
        original(reader, args, kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fxcore.Node, "_set_arguments", counted)
        fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.neg(x))

    assert rewritten == ["cat"]
    assert traced(torch.ones(1)).tolist() == [-1.0] * 50


def described(graph):
    graph.lint()
    return [
        (node.name, node.op, node.target, str(node.args), str(node.kwargs), [user.name for user in node.users])
        for node in graph.nodes
    ]


def replacement_for(pattern):
    """Return a graph that takes what the pattern takes, reads it all, and returns as much."""
    graph = fxcore.Graph()
    inputs = [graph.placeholder(node.name) for node in pattern.nodes if node.op == "placeholder"]
    joined = graph.call_function(torch.stack, (inputs,), {"dim": 0})
    returned = pattern.output_node().args[0]
    graph.output(tuple([graph.call_function(torch.sigmoid, (joined,)) for _ in returned]))
    return graph


def replaced(seed, listener):
    chooser = random.Random(seed)
    module = random_module(chooser, 25)
    if listener is not None:
        module._register_replace_node_hook(listener)
    records = []
    for _ in range(3):
        pattern = part_of(chooser, module.graph)
        for match in fxcore.subgraph_rewriter.replace_pattern_with_filters(module, pattern, replacement_for(pattern)):
            nodes = {ours.name: str(theirs) for ours, theirs in match.nodes_map.items()}
            records.append((nodes, [node.name for node in match.replacements]))
    return module, records


@pytest.mark.parametrize("seed", range(60))
def test_a_graph_without_listeners_is_rewritten_as_one_with(seed):
    heard = []

    silent, silent_records = replaced(seed, None)
    listened, listened_records = replaced(seed, lambda old, new, user: heard.append(new))

    assert described(silent.graph) == described(listened.graph)
    assert silent_records == listened_records
    assert silent.code == listened.code
    assert len(silent.graph.nodes) == len(list(silent.graph.nodes))


@pytest.mark.parametrize("earlier", [False, True])
def test_nodes_are_found_by_their_operators_afterwards(earlier):
    traced = fxcore.symbolic_trace(lambda x: [torch.relu(x), torch.neg(x), torch.relu(torch.neg(x))])
    if earlier:
        traced.graph.find_nodes(op="call_function", target=torch.relu)

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))

    found = {
        target: [node.name for node in traced.graph.find_nodes(op="call_function", target=target)]
        for target in (torch.relu, torch.neg, torch.tanh)
    }
    assert found == {torch.relu: [], torch.neg: ["neg", "neg_1"], torch.tanh: ["tanh", "tanh_1"]}


def test_metadata_of_the_replacement_comes_along_as_a_copy():
    traced = fxcore.symbolic_trace(lambda x: [torch.relu(x), torch.relu(torch.neg(x))])
    replacement = fxcore.symbolic_trace(lambda x: torch.tanh(x))
    for node in replacement.graph.nodes:
        node.meta["note"] = node.name

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), replacement)

    first, second = traced.graph.find_nodes(op="call_function", target=torch.tanh)
    assert first.meta == second.meta == {"note": "tanh"}
    first.meta["note"] = "mine"
    assert second.meta == {"note": "tanh"}


def test_a_graph_with_hooks_or_ways_of_its_own_has_listeners():
    class Own(fxcore.Graph):
        pass

    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    assert not deferred_edits.has_listeners(traced.graph)
    assert not deferred_edits.has_listeners(fxcore.Graph())
    assert deferred_edits.has_listeners(Own())
    traced._register_erase_node_hook(print)
    assert deferred_edits.has_listeners(traced.graph)


def test_a_hook_is_told_the_name_of_a_node_and_the_text_of_a_constant_that_comes_in_the_place_of_a_value():
    told = []
    traced = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))
    traced._register_replace_node_hook(lambda old, new, user: told.append((old.name, new, user.name)))

    fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x))
    fxcore.replace_pattern(traced, lambda x: torch.tanh(x), lambda x: 3.0)

    assert told == [("relu", "tanh", "neg"), ("tanh", "3.0", "neg")]


@pytest.mark.parametrize("hooks", [(), (lambda **_: None,)], ids=["at the end", "at once"])
def test_a_value_that_took_the_place_of_another_is_replaced_for_the_readers_of_both(hooks):
    def program(x):
        first = torch.neg(x)
        last = torch.relu(first), torch.exp(torch.neg(first))
        return *last, torch.exp(first), torch.relu(x)

    def rewritten(fx):
        traced = fx.symbolic_trace(program)
        traced._replace_hooks = list(hooks)
        fx.subgraph_rewriter.replace_pattern(
            traced, lambda x: (torch.relu(x), torch.neg(x)), lambda x: (torch.sigmoid(x), x)
        )
        return traced

    assert rewritten(fxcore).code == rewritten(torch.fx).code


def test_a_pattern_that_returns_its_input_may_leave_it():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x) + x)

    fxcore.replace_pattern(traced, lambda x: (x, torch.relu(x)), lambda x: (x, torch.neg(x)))

    assert torch.equal(traced(torch.ones(2)), torch.zeros(2))
