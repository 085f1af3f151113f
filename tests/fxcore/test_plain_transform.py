"""What the short way makes of a graph is what running it on stand-ins makes of it."""

from __future__ import annotations

import functools
import operator
from collections import namedtuple

import pytest
import torch
from torch import nn

import fxcore
from fxcore import traceback

Pair = namedtuple("Pair", "first second")


class Recording(fxcore.Transformer):
    """Overrides a method, so that each node is run and recorded."""

    def run_node(self, n):
        return super().run_node(n)


# What nodes are made by is part of their metadata.
Recording.__name__ = "Transformer"


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first
        self.block = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x, y: float = 2.0):
        return self.again(self.first(x)) * self.scale + self.block(x).sum(dim=-1, keepdim=True) * y


def shared():
    module = Shared()
    graph = fxcore.Graph()
    x = graph.placeholder("x", type_expr=torch.Tensor)
    y = graph.placeholder("y", default_value=2.0)
    graph.output((graph.call_module("again", (x,)), graph.call_module("first", (x,)), y))
    return fxcore.GraphModule(module, graph)


def of_nodes(make):
    """Return a module of what `make` returns, given a graph and an input."""
    graph = fxcore.Graph()
    graph.output(make(graph, graph.placeholder("x")))
    return fxcore.GraphModule(nn.Module(), graph)


def named_tuple_argument(graph, x):
    return graph.call_function(torch.cat, (Pair(x, x),))


def containers(graph, x):
    part = graph.call_function(operator.getitem, (x, (slice(None, 2), ..., None)))
    return {"sum": graph.call_function(torch.cat, ([x, part], 0)), "parts": [x, {"deep": (part, 1)}]}


def method_of_a_stand_in(graph, x):
    return graph.call_method("__getitem__", (x, 0)), graph.call_method("keys", (x,))


def method_of_a_constant(graph, x):
    return graph.call_method("upper", ("text",)), x


def unnamed_function(graph, x):
    return graph.call_function(torch.neg, (graph.call_function(torch.relu, (x,)),)), x


def names_in_disorder(graph, x):
    first = graph.call_function(torch.relu, (x,))
    second = graph.call_function(torch.relu, (first,))
    graph.erase_node(graph.call_function(torch.relu, (x,)))
    return graph.call_function(torch.relu, (second,))


def nothing(graph, x):
    return None


PROGRAMS = {
    "modules": lambda: fxcore.symbolic_trace(Shared()),
    "a module at two paths": shared,
    **{
        make.__name__: functools.partial(of_nodes, make)
        for make in (
            *(named_tuple_argument, containers, method_of_a_stand_in, method_of_a_constant),
            *(unnamed_function, names_in_disorder, nothing),
        )
    },
}


def described(graph):
    return [
        (node.op, node.name, node.target, str(node.args), str(node.kwargs), node.type, list(map(str, node.users)))
        for node in graph.nodes
    ]


@pytest.mark.parametrize("keep_types", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_both_ways_lead_to_one_graph(program, keep_types):
    traced = PROGRAMS[program]()
    for node in traced.graph.nodes:
        node.meta["note"] = node.name
        node.meta["custom"] = {"of": node.name}

    short, long = fxcore.Transformer(traced), Recording(traced)
    short_result, long_result = short.transform(keep_types=keep_types), long.transform(keep_types=keep_types)

    assert described(short_result.graph) == described(long_result.graph)
    assert short_result.code == long_result.code
    metas, expected = [[node.meta for node in each.graph.nodes] for each in (short_result, long_result)]
    assert metas == expected
    assert [list(meta) for meta in metas] == [list(meta) for meta in expected]
    assert short.tracer.node_name_to_scope == long.tracer.node_name_to_scope


def test_metadata_that_nobody_looked_at_is_the_same():
    module = Shared()

    short = fxcore.Transformer(fxcore.symbolic_trace(module)).transform()
    long = Recording(fxcore.symbolic_trace(module)).transform()

    def shown(graph):
        return [
            (node.meta.get("nn_module_stack"), [(each.name, each.target) for each in node.meta.get("from_node", [])])
            for node in graph.nodes
        ]

    assert shown(short.graph) == shown(long.graph)


def test_notes_around_the_transform_reach_nodes_without_metadata():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with traceback.annotate({"stage": 1}):
        notes = [
            [node.meta for node in kind(traced).transform().graph.nodes] for kind in (fxcore.Transformer, Recording)
        ]

    assert notes[0] == notes[1]
    assert notes[0][1] == {"custom": {"stage": 1}}


def test_copies_do_not_share_their_metadata_with_the_originals():
    traced = fxcore.symbolic_trace(Shared())

    transformed = fxcore.Transformer(traced).transform()
    for node in transformed.graph.nodes:
        node.meta["note"] = 1

    assert not any("note" in node.meta for node in traced.graph.nodes)


def test_a_value_that_comes_too_late_is_named():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.relu, (x,))
    graph.output(graph.call_function(torch.neg, (first,)))
    first.next.append(first)

    with pytest.raises(RuntimeError, match="Node neg referenced nonexistent value relu"):
        fxcore.Transformer(fxcore.GraphModule(nn.Module(), graph)).transform()


def test_a_hook_set_on_the_tracer_itself_is_called():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    transformer = fxcore.Transformer(traced)
    recorded = []
    create_node = transformer.tracer.create_node

    def listening(*args, **kwargs):
        recorded.append(args[0])
        return create_node(*args, **kwargs)

    transformer.tracer.create_node = listening

    transformer.transform()

    assert recorded == ["call_function"]


def test_what_the_tracer_is_to_check_is_checked():
    transformer = fxcore.Transformer(fxcore.symbolic_trace(lambda x: torch.relu_(x)))
    transformer.tracer.check_mutable_operations = True

    with pytest.raises(RuntimeError, match="mutable"):
        transformer.transform()


def test_a_constant_tensor_becomes_an_attribute_of_the_module():
    def transformed(kind):
        return kind(of_nodes(lambda graph, x: graph.call_function(torch.add, (x, torch.ones(1))))).transform()

    short, long = transformed(fxcore.Transformer), transformed(Recording)

    assert described(short.graph) == described(long.graph)
    assert short(torch.ones(1)).item() == 2.0
