"""Edits that nobody hears of lead to the graph to which the same edits lead one by one."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import fxcore
from fixtures.random_calls import part_of, random_module
from fxcore.matching import bulk_edit


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

    assert not bulk_edit.has_listeners(traced.graph)
    assert not bulk_edit.has_listeners(fxcore.Graph())
    assert bulk_edit.has_listeners(Own())
    traced._register_erase_node_hook(print)
    assert bulk_edit.has_listeners(traced.graph)


def test_nodes_that_others_read_are_not_erased():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    graph.output(relu)
    fxcore.GraphModule(nn.Module(), graph)

    with pytest.raises(fxcore.FxError, match="cannot erase 'relu': output still read it"):
        bulk_edit.erase(graph, {relu: None})
