from __future__ import annotations

import operator

import pytest
import torch

import fxcore
from fxcore.passes.topological_order import sorted_topologically, stable_topological_sort


def test_nodes_in_order_stay_the_very_same():
    gm = fxcore.symbolic_trace(lambda x, y: torch.relu(x) + y)
    nodes = list(gm.graph.nodes)

    assert stable_topological_sort(gm) is gm

    assert list(gm.graph.nodes) == nodes


def test_nodes_out_of_order_are_moved_and_the_module_recompiled():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    neg = graph.call_function(torch.neg, (x,))
    other = graph.call_function(torch.abs, (x,))
    add = graph.call_function(operator.add, (neg, other))
    graph.output(add)
    gm = fxcore.GraphModule({}, graph)
    relu = graph.call_function(torch.relu, (x,))  # after the output
    neg.args = (relu,)

    stable_topological_sort(gm)

    assert [node.name for node in graph.nodes] == ["x", "abs_1", "relu", "neg", "add", "output"]
    graph.lint()
    assert torch.equal(gm(torch.ones(2)), torch.zeros(2))


def test_nodes_in_a_circle_are_refused():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(torch.neg(x)))
    _, neg, relu, _ = gm.graph.nodes
    neg.args = (relu,)

    with pytest.raises(AssertionError, match="cycles: these nodes read one another in a circle: neg, relu"):
        sorted_topologically(gm.graph.nodes)
