from __future__ import annotations

from fixtures.oracle import assert_same
from fxcore.dead_code import remove_unread


def with_a_dead_chain(x, y, z=1):
    a = x + 1
    b = a * 2
    b.neg()
    return y


def test_a_chain_that_nobody_reads_goes_and_inputs_stay():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        return graph.eliminate_dead_code(), graph, graph.eliminate_dead_code()

    assert_same(cleaned)


def test_a_node_stays_if_the_caller_says_so():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        graph.eliminate_dead_code(lambda node: node.is_impure() or node.name == "mul")
        return graph

    assert_same(cleaned)


def test_the_number_of_erased_nodes_is_told():
    import fxcore

    graph = fxcore.symbolic_trace(with_a_dead_chain).graph

    assert remove_unread(graph, lambda node: node.is_impure()) == 3
    assert remove_unread(graph, lambda node: node.is_impure()) == 0
