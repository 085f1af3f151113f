from __future__ import annotations

import itertools

import torch

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.nodes.node_list import append_copies, make_node


def chain(x):
    return torch.relu(x).neg().abs().sin()


def test_walking_goes_on_through_edits_as_in_torch_fx():
    def walks(fx):
        graph, seen = fx.symbolic_trace(chain).graph, []
        for node in graph.nodes:
            seen.append(node.name)
            if node.name == "neg":
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
            if node.name == "abs_1" and len(graph.nodes) < 8:
                with graph.inserting_after(node):
                    graph.call_function(torch.cos, (node,))
        for node in reversed(graph.nodes):
            seen.append(node.name)
            if node.name == "cos":
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        return seen, graph

    assert_same(walks)


def test_erasing_all_that_lies_ahead_ends_a_walk():
    graph = fxcore.symbolic_trace(chain).graph
    walk = iter(graph.nodes)
    x = next(walk)
    last = list(graph.nodes)[-1]
    last.args = (x,)

    for node in list(graph.nodes)[:0:-1]:
        graph.erase_node(node)

    assert list(walk) == []
    assert list(graph.nodes) == [x]


def test_many_insertions_at_one_place_keep_the_order():
    graph = fxcore.symbolic_trace(chain).graph
    x = next(iter(graph.nodes))

    for _ in range(2000):
        with graph.inserting_after(x):
            graph.call_function(torch.neg, (x,))
    nodes = list(graph.nodes)

    assert len(nodes) == len(graph.nodes) == 2006
    assert all(before < after for before, after in itertools.pairwise(nodes))


def test_a_list_knows_its_members_and_has_no_indices():
    def asked(fx):
        graph = fx.symbolic_trace(chain).graph
        first = next(iter(graph.nodes))
        other = next(iter(fx.symbolic_trace(chain).graph.nodes))
        return first in graph.nodes, other in graph.nodes, bool(graph.nodes), len(graph.nodes), min(graph.nodes)

    assert_same(asked)


def test_a_made_node_is_among_the_users_of_its_inputs_and_in_no_list():
    graph = Graph()
    x = graph.placeholder("x")

    node = make_node(graph, "call_function", torch.relu, (x,), {}, (x,))

    assert list(x.users) == [node]
    assert node.next is node.prev is node
    assert (node.type, node.meta, list(graph.nodes)) == (None, {}, [x])


def test_copies_end_before_the_output_and_skip_what_is_mapped():
    graph, copied = Graph(), Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,), type_expr=int)
    y.meta["tag"] = 1
    output = graph.output(y)
    mapping = {x: copied.placeholder("z")}

    assert append_copies(graph.nodes, copied, mapping) is output

    assert [node.name for node in copied.nodes] == ["z", "relu"]
    assert (mapping[y].args, mapping[y].type, mapping[y].meta) == ((mapping[x],), int, {"tag": 1})
    assert mapping[y].meta is not y.meta
