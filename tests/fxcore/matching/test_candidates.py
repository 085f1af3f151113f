"""The nodes that a search for a pattern tries."""

from __future__ import annotations

import operator

import torch

import fxcore
from fxcore.matching.candidates import Anchor, Candidates, OperatorLookup


def graph_of(function):
    graph = fxcore.symbolic_trace(function).graph
    return graph, {node.name: node for node in graph.nodes}


def diamond(x, y):
    product = x * y
    return (product + 1) / (product - 1)


def test_the_nodes_above_an_anchor_are_its_dependencies():
    _, nodes = graph_of(diamond)

    assert {node.name for node in Anchor(nodes["truediv"]).above()} == {"add", "sub", "mul", "x", "y"}
    assert Anchor(nodes["x"]).above() == []


def test_a_chain_above_an_anchor_is_ordered_from_the_anchor_upwards():
    _, nodes = graph_of(lambda x: x.neg().abs().exp())

    assert [node.name for node in Anchor(nodes["exp"]).above()] == ["abs_1", "neg", "x"]


def test_the_last_members_above_an_anchor_hide_the_members_above_them():
    _, nodes = graph_of(lambda x: x.neg().abs().exp().log())
    anchor = Anchor(nodes["log"])

    assert anchor.last_of([nodes["neg"], nodes["exp"]]) == [nodes["exp"], nodes["neg"]]
    assert anchor.last_of([nodes["neg"], nodes["abs_1"]]) == [nodes["abs_1"]]
    assert anchor.last_of([]) == []


def test_the_nodes_below_a_start_are_alike_on_the_whole_way():
    pattern = graph_of(lambda x: x.neg().exp())[1]
    _, nodes = graph_of(lambda x, y: (y.neg().exp(), x.neg().log(), x.neg().exp(), x.exp()))

    def are_alike(expected, obtained):
        return expected.target == obtained.target

    found = [nodes["neg_2"], nodes["neg"], nodes["neg_1"]]

    assert Anchor(pattern["exp"]).below(pattern["neg"], found, are_alike) == [nodes["exp"], nodes["exp_1"]]
    assert Anchor(pattern["neg"]).below(pattern["neg"], found, are_alike) == [
        nodes["neg"],
        nodes["neg_1"],
        nodes["neg_2"],
    ]


def test_claimed_nodes_at_the_front_are_skipped_for_good():
    graph, _ = graph_of(lambda x: x.neg().abs().exp())
    nodes, claimed = list(graph.nodes), set()
    candidates = Candidates(nodes, claimed)

    assert list(candidates) == nodes
    claimed.update([nodes[0], nodes[2]])
    assert list(candidates) == nodes[1:], "a claimed node behind a free one is still tried"
    claimed.add(nodes[1])
    assert list(candidates) == nodes[3:]
    claimed.clear()
    assert list(candidates) == nodes[3:], "a claim is final"
    claimed.update(nodes)
    assert list(candidates) == []


def found_for(pattern_node, graph, *, by_path=False, placeholders=False):
    lookup = OperatorLookup(graph, lambda expected, obtained: obtained.target == "1", by_path, placeholders)
    assert lookup.find(pattern_node) is lookup.find(pattern_node)
    return {node.name for node in lookup.find(pattern_node)}


def test_a_call_is_found_by_its_operator():
    graph, nodes = graph_of(lambda x: torch.relu(x).add(x + 1) + 2)

    assert found_for(nodes["add_1"], graph) == {"add_1"}
    assert nodes["add"].target is operator.add
    assert found_for(nodes["add"], graph) == {"add", "add_2"}
    assert found_for(nodes["output"], graph) == {"output"}


def test_a_module_is_found_by_its_path_or_by_likeness():
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())
    graph = fxcore.symbolic_trace(model).graph
    first = next(node for node in graph.nodes if node.op == "call_module")

    assert found_for(first, graph, by_path=True) == {"_0"}
    assert found_for(first, graph) == {"_1"}, "the node that the given function finds alike"


def test_an_input_of_a_pattern_is_any_value_or_an_input():
    graph, nodes = graph_of(lambda x, y: x + y)

    assert found_for(nodes["x"], graph) == {"x", "y", "add"}
    assert found_for(nodes["x"], graph, placeholders=True) == {"x", "y"}
