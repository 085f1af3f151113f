from __future__ import annotations

import itertools

import pytest
import torch

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.node import GAP
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


def labels_after_insertion(labels, place):
    """Return the order labels after a node was inserted after the first `place` of nodes with these labels."""
    graph = Graph()
    nodes = [graph.placeholder(f"x{number}") for number in range(len(labels))]
    for node, label in zip(nodes, labels, strict=True):
        node._sort_key = label
    with graph.inserting_after(nodes[place - 1]) if place else graph.inserting_before(nodes[0]):
        graph.placeholder("new")
    return [node._sort_key for node in graph.nodes]


@pytest.mark.parametrize(
    ("labels", "place", "expected"),
    [
        ((0, 2), 1, [0, 1, 2]),
        ((0, 10), 1, [0, 5, 10]),
        ((0, 2), 0, [-GAP, 0, 2]),
        ((0, 2), 2, [0, 2, 2 + GAP]),
    ],
)
def test_a_node_with_room_gets_the_label_in_the_middle_and_no_other_label_changes(labels, place, expected):
    assert labels_after_insertion(labels, place) == expected


@pytest.mark.parametrize(
    ("labels", "place", "expected"),
    [
        ((0, 1), 1, [-16, 0, 16]),
        ((0, 1, 2, 3), 2, [-42, -21, 0, 21, 42]),
        ((-200, 0, 1, 2, 3, 200), 3, [-200, -42, -21, 0, 21, 42, 200]),  # far enough away
        ((-63, 0, 1, 2, 3), 3, [-91, -55, -19, 17, 53, 89]),  # at the end of the stretch
        ((0, 1, 2, 3, 65), 2, [-91, -55, -19, 17, 53, 89]),
        ((0, 1, 2, 3, 4, 5, 6), 4, [-97, -69, -41, -13, 15, 43, 71, 99]),  # exactly as empty as it has to be
    ],
)
def test_a_crowded_place_spreads_over_the_shortest_stretch_with_room(labels, place, expected):
    spread = labels_after_insertion(labels, place)

    assert spread == expected
    assert all(before < after for before, after in itertools.pairwise(spread))


def test_copies_have_the_arguments_of_the_originals_and_free_names():
    graph, copied = Graph(), Graph()
    copied.placeholder("neg")
    x, y = graph.placeholder("x"), graph.placeholder("y")
    one = graph.call_function(torch.neg, (x,))
    graph.call_function(torch.clamp, (x,), {"min": y})
    graph.call_function(torch.full, ((2,), 1))
    graph.call_function(torch.cat, ([one, y, one],), {"dim": 0})
    graph.call_function(torch.add, (one, one))
    graph.call_function(torch.stack, ([one, y],))
    graph.call_function(torch.rand, (2,), {"generator": x})
    with graph.inserting_after(graph.output(one)):
        graph.call_function(torch.sin, (x,))

    append_copies(graph.nodes, copied, {})

    assert [(node.name, node.args, node.kwargs, len(node.users)) for node in copied.nodes] == [
        ("neg", (), {}, 0),
        ("x", (), {}, 3),
        ("y", (), {}, 3),
        ("neg_1", (x_copy := list(copied.nodes)[1],), {}, 3),
        ("clamp", (x_copy,), {"min": (y_copy := list(copied.nodes)[2])}, 0),
        ("full", ((2,), 1), {}, 0),
        ("cat", ([(neg := list(copied.nodes)[3]), y_copy, neg],), {"dim": 0}, 0),
        ("add", (neg, neg), {}, 0),
        ("stack", ([neg, y_copy],), {}, 0),
        ("rand", (2,), {"generator": x_copy}, 0),
    ]
    assert [list(node.all_input_nodes) for node in copied.nodes][3:] == (
        [[x_copy], [x_copy, y_copy], [], [neg, y_copy], [neg], [neg, y_copy], [x_copy]]
    )
    assert len(copied.nodes) == 10
