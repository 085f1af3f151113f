"""What torch.fx loses or garbles when graphs are edited, copied and printed: shown with torch.fx, then right."""

from __future__ import annotations

import pickle

import pytest
import torch
import torch.fx

import fxcore


def test_a_transformer_drops_metadata():
    """pytorch#95314."""

    def notes(fx):
        traced = fx.symbolic_trace(lambda x: x + 1)
        for node in traced.graph.nodes:
            node.meta["note"] = node.name
        return [node.meta.get("note") for node in fx.Transformer(traced).transform().graph.nodes]

    assert notes(torch.fx) == [None, None, "output"]
    assert notes(fxcore) == ["x", "add", "output"]


def with_a_call_on_constants(fx):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.add, (x, graph.call_function(torch.zeros, (2,)))))
    return fx.GraphModule({}, graph)


def test_pickling_traces_again():
    """pytorch#198077, #103947: what does not depend on an input is computed once and for all, and meta is lost."""

    def names(fx):
        return [node.name for node in pickle.loads(pickle.dumps(with_a_call_on_constants(fx))).graph.nodes]

    assert names(torch.fx) == ["x", "_tensor_constant0", "add", "output"]
    assert names(fxcore) == ["x", "zeros", "add", "output"]


def test_pickling_fails_where_tracing_does():
    """pytorch#198077, #103947: the graph has a call that tracing would refuse."""

    def length(fx):
        graph = fx.Graph()
        graph.output(graph.call_function(len, (graph.placeholder("x"),)))
        return pickle.loads(pickle.dumps(fx.GraphModule({}, graph)))([1, 2])

    with pytest.raises(RuntimeError, match="'len' is not supported"):
        length(torch.fx)
    assert length(fxcore) == 2


def test_an_inserted_list_can_be_changed_behind_the_back_of_users():
    """`insert_arg` keeps the caller's own list, where every other way of setting arguments freezes it."""

    def insert(fx):
        graph = fx.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        node = graph.call_function(torch.cat, ())
        node.insert_arg(0, [x])
        node.args[0].append(y)
        return list(y.users)

    assert insert(torch.fx) == []
    with pytest.raises(TypeError, match="does not support mutation"):
        insert(fxcore)


def test_a_placeholder_with_an_annotation_is_printed_with_its_name_twice():
    def shown(fx):
        names = ["self"]
        fx.Graph().placeholder("x", type_expr=torch.Tensor).format_node(names, [""])
        return names

    assert shown(torch.fx) == ["self", "xx: torch.Tensor"]
    assert shown(fxcore) == ["self", "x: torch.Tensor"]
