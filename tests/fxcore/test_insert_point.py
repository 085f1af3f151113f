from __future__ import annotations

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same


def test_nodes_go_where_the_graph_was_told_as_in_torch_fx():
    def walk(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x)).graph
        x, relu, _ = graph.nodes

        def add(function):
            return graph.call_function(function, (x,))

        with graph.inserting_before(relu):
            add(torch.neg)
            with graph.inserting_after(x):
                add(torch.sin)
                add(torch.cos)
            add(torch.abs)
        with graph.inserting_before():
            graph.call_function(torch.ones, (1,))
        with graph.inserting_after():
            add(torch.tan)
        graph.inserting_before(relu)  # for good: no block ends it
        add(torch.exp)
        return graph

    assert_same(walk)


def test_an_error_in_the_block_restores_the_place_too():
    graph = fxcore.symbolic_trace(lambda x: torch.relu(x)).graph
    x, relu, _ = graph.nodes

    with pytest.raises(ZeroDivisionError), graph.inserting_before(relu):
        raise ZeroDivisionError
    last = graph.call_function(torch.neg, (x,))

    assert list(graph.nodes)[-1] is last


def test_a_place_in_another_graph_is_refused():
    graph = fxcore.symbolic_trace(lambda x: x).graph
    stranger = next(iter(fxcore.symbolic_trace(lambda x: x).graph.nodes))

    with pytest.raises(AssertionError, match=r"Node to insert before is not in graph\.: 'x' belongs to another graph"):
        graph.inserting_before(stranger)
