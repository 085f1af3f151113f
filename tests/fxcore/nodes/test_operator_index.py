from __future__ import annotations

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same


def function(x):
    return torch.relu(torch.relu(x).sum() + torch.sin(x)).sum()


def test_nodes_are_found_after_every_kind_of_edit():
    def found(fx):
        graph = fx.symbolic_trace(function).graph
        sights = []

        def look():
            sights.append(
                [graph.find_nodes(op="call_function", target=it) for it in (torch.relu, torch.sin, torch.cos)]
            )
            sights.append([graph.find_nodes(op=op) for op in ("call_method", "placeholder", "output", "call_module")])

        look()
        sine = graph.find_nodes(op="call_function", target=torch.sin)[0]
        sine.target = torch.relu
        look()
        sine.op, sine.target = "call_method", "sum"
        with graph.inserting_before(sine):
            extra = graph.call_function(torch.relu, (sine.args[0],))
        look()
        graph.erase_node(extra)
        look()
        return sights

    assert_same(found)


def test_nodes_that_moved_are_found_in_their_new_order():
    graph = fxcore.symbolic_trace(function).graph
    first, second, *_ = graph.find_nodes(op="call_function", target=torch.relu)

    second.append(first)

    assert graph.find_nodes(op="call_function", target=torch.relu) == [second, first]
    assert set(graph.find_nodes(op="call_function", target=torch.relu, sort=False)) == {first, second}


def test_function_calls_cannot_be_found_without_a_function():
    graph = fxcore.symbolic_trace(function).graph

    with pytest.raises(AssertionError, match="target must not be None for call_function op"):
        graph.find_nodes(op="call_function")
