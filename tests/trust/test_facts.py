"""Facts beyond operators and arguments: changes are caught, and equal graphs pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from fixtures.lowered import CompileSpec, with_delegate
from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from fxcore import Graph, GraphModule, symbolic_trace
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode


def calling(module, inputs=None):
    graph = Graph()
    graph.output(graph.call_module("leaf", (graph.placeholder("x"),)))
    gm = GraphModule(nn.ModuleDict({"leaf": module}), graph)
    with shapes_recorded(gm, inputs):
        return build_document(gm)


class Leaf(nn.Module):
    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return x


def exported(**bounds):
    program = export(nn.ReLU(), (torch.ones(8, 2),), dynamic_shapes=({0: Dim("rows", **bounds)},), strict=False)
    return build_document(to_graph_module(program))


def channels_last(is_last):
    conv = nn.Conv2d(3, 4, 3)
    return conv.to(memory_format=torch.channels_last) if is_last else conv


def transposed(is_transposed):
    x = torch.ones(3, 3)
    return calling(nn.ReLU(), x.t() if is_transposed else x)


def sharing(offset):
    module = nn.Module()
    memory = torch.zeros(8)
    module.first, module.second = nn.Parameter(memory[:4]), nn.Parameter(memory[offset : offset + 4])
    graph = Graph()
    graph.output((graph.get_attr("first"), graph.get_attr("second")))
    return build_document(GraphModule(module, graph))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


class Halve(Double):
    pass


def applying(function):
    graph = Graph()
    graph.output(graph.call_function(function.apply, (graph.placeholder("x"),)))
    return build_document(GraphModule({}, graph))


def doubled(module, args, output):
    return output * 2


def halved(module, args, output):
    return output / 2


def hooked(hook):
    leaf = nn.ReLU()
    leaf.register_forward_hook(hook)
    return calling(leaf)


def holding(model):
    return calling(Leaf(stages=[symbolic_trace(model)], inner=symbolic_trace(model)))


def delegating(model=None, **options):
    return build_document(with_delegate(export((model or nn.ReLU()).eval(), (torch.ones(2),), strict=False), **options))


# Of each fact: the graph, the same made again, and one that is another.
CASES = {
    "layout of an input": ("layouts", lambda: transposed(True), lambda: transposed(False)),
    "layout of an input, before": ("layouts", lambda: transposed(False), lambda: transposed(True)),
    "layout of state": ("layouts", lambda: calling(channels_last(True)), lambda: calling(channels_last(False))),
    "overlap": ("views", lambda: sharing(2), lambda: sharing(4)),
    "place of an overlap": ("views", lambda: sharing(2), lambda: sharing(1)),
    "range": ("ranges", lambda: exported(max=64), lambda: exported(max=32)),
    "range dropped": ("ranges", lambda: exported(max=64), lambda: exported()),
    "class of a function": ("classes", lambda: applying(Double), lambda: applying(Halve)),
    "hook": ("hooks", lambda: hooked(doubled), lambda: hooked(halved)),
    "hook dropped": ("hooks", lambda: hooked(doubled), lambda: calling(nn.ReLU())),
    "list": ("attributes", lambda: calling(Leaf(sizes=[1, 2])), lambda: calling(Leaf(sizes=[1, 3]))),
    "dtype": ("attributes", lambda: calling(Leaf(kind=torch.int8)), lambda: calling(Leaf(kind=torch.uint8))),
    "dict": ("attributes", lambda: calling(Leaf(of={"a": 1})), lambda: calling(Leaf(of={"a": 1.0}))),
    "set": ("attributes", lambda: calling(Leaf(of={2, 1})), lambda: calling(Leaf(of={3, 1}))),
    "slice": ("attributes", lambda: calling(Leaf(of=slice(1, 2))), lambda: calling(Leaf(of=slice(1, 3)))),
    "device": (
        "attributes",
        lambda: calling(Leaf(of=torch.device("cpu"))),
        lambda: calling(Leaf(of=torch.device("meta"))),
    ),
    "complex": ("attributes", lambda: calling(Leaf(of=1 + 2j)), lambda: calling(Leaf(of=1 - 2j))),
    "graph in a leaf": ("nested", lambda: holding(nn.Sequential(nn.ReLU())), lambda: holding(nn.Sequential(nn.Tanh()))),
}
DELEGATES = {
    "graph": {"model": nn.Tanh()},
    "backend": {"backend_id": "Qnn"},
    "bytes": {"processed": b"\x00Made"},
    "specs": {"specs": [CompileSpec("mode", b"\x02")]},
}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("case", CASES)
def test_a_changed_fact_is_caught_and_an_equal_graph_passes(case):
    _, make, change = CASES[case]
    golden, again, changed = make(), make(), change()

    assert all(compare_documents(golden, again, level=level).is_empty for level in LEVELS)
    assert not compare_documents(golden, changed).is_empty
    assert not compare_documents(golden, changed, level="exact").is_empty


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("change", DELEGATES)
def test_a_changed_delegate_is_caught(change):
    golden = delegating()

    assert compare_documents(golden, delegating()).is_empty
    assert not compare_documents(golden, delegating(**DELEGATES[change])).is_empty


def tagged(**tags):
    """Give a graph whose nodes have metadata that the test asks for by name."""
    gm = symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in gm.graph.nodes:
        if node.name in tags:
            node.meta["tag"] = tags[node.name]
    return build_document(gm, meta=("tag",))


@pytest.mark.parametrize(
    "change",
    [
        {"relu": ("b", 1), "add": None},
        {"relu": ("a", 1.0), "add": None},
        {"relu": ("a", 1)},
        {"relu": None, "add": ("a", 1)},
        {"relu": ("a", 1), "add": None, "x": 0},
    ],
)
def test_changed_metadata_is_caught_where_it_was_asked_for(change):
    golden = tagged(relu=("a", 1), add=None)

    assert all(compare_documents(golden, tagged(relu=("a", 1), add=None), level=level).is_empty for level in LEVELS)
    assert not compare_documents(golden, tagged(**change)).is_empty
    assert not compare_documents(golden, tagged(**change), level="exact").is_empty


@pytest.mark.parametrize("case", CASES)
def test_a_golden_with_all_facts_is_read_back(case):
    _, make, _ = CASES[case]
    document = make()

    found = decode(encode(document), "golden")

    assert compare_documents(document, found, level="exact").is_empty
