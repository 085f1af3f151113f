from __future__ import annotations

from torch import nn

from fxcore import Graph, GraphModule
from pytest_fxgraph.document.builder import build_document


def documented(root, *paths):
    graph = Graph()
    value = graph.placeholder("x")
    for path in paths:
        value = graph.call_module(path, (value,))
    graph.output(value)
    return build_document(GraphModule(root, graph))


def test_modules_stand_in_the_order_of_their_calls_once_each():
    root = nn.ModuleDict({"first": nn.ReLU(), "second": nn.Tanh()})

    document = documented(root, "second", "first", "second")

    assert [(module.path, module.kind) for module in document.modules] == [
        ("second", "torch.nn.Tanh"),
        ("first", "torch.nn.ReLU"),
    ]


def test_one_module_under_two_paths_is_recorded_as_the_same():
    shared = nn.Linear(2, 2)
    root = nn.ModuleDict({"first": shared, "second": shared})

    first, second = documented(root, "first", "second").modules

    assert first.same_as is None
    assert second.same_as == "first"
    assert second.config == first.config


def test_the_modules_inside_a_called_module_are_described_too():
    root = nn.ModuleDict({"layer": nn.TransformerEncoderLayer(4, 2, dropout=0.25)})

    records = {module.path: module for module in documented(root, "layer").modules}

    assert dict(records["layer.dropout1"].config)["p"] == "0.25"
    assert records["layer.dropout1"].training is True
    assert dict(records["layer.self_attn"].config)["num_heads"] == "2"


def test_a_module_that_is_a_graph_is_documented_inside():
    inner = Graph()
    inner.output(inner.call_module("relu", (inner.placeholder("a"),)))
    root = nn.Module()
    root.inner = GraphModule(nn.ModuleDict({"relu": nn.ReLU()}), inner)

    (record,) = documented(root, "inner").modules

    assert record.kind == "GraphModule"
    assert [node.name for node in record.graph.nodes] == ["a", "relu", "output"]
    assert [module.path for module in record.graph.modules] == ["relu"]
