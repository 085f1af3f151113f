from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same
from fxcore import Graph
from fxcore.errors import FxError


def test_a_graph_made_by_hand_is_torch_fx_s():
    def made(fx):
        graph = fx.Graph()
        x = graph.placeholder("x", torch.Tensor)
        size = graph.placeholder("size", int, default_value=3)
        graph.placeholder("nothing", default_value=None)
        rest, named = graph.placeholder("*rest"), graph.placeholder("**named")
        weight = graph.create_node("get_attr", "w", name="weight")
        total = graph.call_function(operator.add, (x, weight), name="total")
        again = graph.call_function(operator.add, (total, size), name="total")
        flat = graph.call_method("view", (again, -1), {"out": 1})
        layer = graph.create_node("call_module", "l.0", (flat,))
        graph.output({"a": [layer, (total,)], "b": named, "c": rest}, torch.Tensor)
        return graph, graph.python_code("module").src

    assert_same(made)


def test_an_attribute_that_is_not_there_warns_and_a_missing_module_is_refused():
    graph = fxcore.symbolic_trace(nn.Sequential(nn.Linear(1, 1))).graph

    with pytest.warns(UserWarning, match="Attempted to insert a get_attr Node with no underlying reference"):
        graph.get_attr("missing")
    with pytest.raises(AttributeError, match="missing"):
        graph.call_module("missing")
    assert graph.get_attr("0.weight").name == "_0_weight"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda graph, x: graph.call_function(torch.relu, [x]), "args must be a tuple, got <class 'list'>"),
        (lambda graph, x: graph.call_function(torch.relu, (x,), [x]), "kwargs must be a dict, got <class 'list'>"),
        (lambda graph, x: graph.call_module(3), "Expected target to be str, got <class 'int'>"),
        (lambda graph, x: graph.create_node("call", "x"), "op 'call' is not in _legal_ops"),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    graph = Graph()
    x = graph.placeholder("x")

    with pytest.raises(AssertionError) as caught:
        make(graph, x)

    assert words in str(caught.value)
    assert isinstance(caught.value, FxError)
    assert list(graph.nodes) == [x]
