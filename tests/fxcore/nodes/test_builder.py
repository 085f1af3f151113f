from __future__ import annotations

import torch

from fxcore import Graph
from fxcore.nodes.builder import append, append_copies, make_node


def test_a_made_node_is_among_the_users_of_its_inputs_and_in_no_list():
    graph = Graph()
    x = graph.placeholder("x")

    node = make_node(graph, "call_function", torch.relu, (x,), {}, {x: None})

    assert list(x.users) == [node]
    assert node.next is node.prev is node
    assert (node.type, node.meta, list(graph.nodes)) == (None, {}, [x])


def test_an_appended_node_comes_last_under_a_free_name():
    graph = Graph()
    x = graph.placeholder("x")
    node = make_node(graph, "call_function", torch.relu, (x,), {}, {x: None})

    assert append(graph, node, "x") == node.name == "x_1"
    assert list(graph.nodes) == [x, node]
    assert x < node


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
