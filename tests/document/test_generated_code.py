from __future__ import annotations

import operator
from dataclasses import replace

import pytest
import torch
from torch import fx, nn

import fxcore
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.generated_code import Graphs, under_names_of, with_code
from pytest_fxgraph.document.model import without_code
from pytest_fxgraph.document.node_names import rename_nodes


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x + 1)


def read(graph_module):
    """Return the document without code, and where its graphs are."""
    graphs: Graphs = {}
    return build_document(graph_module, graphs=graphs), graphs


def around(inner):
    graph = fxcore.Graph()
    root = nn.Module()
    root.inner = inner
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    return fxcore.GraphModule(root, graph)


@pytest.mark.parametrize("library", [fxcore, fx])
def test_code_can_be_added_later_to_a_graph_and_those_inside(library):
    graph_module = around(library.symbolic_trace(Net()))
    document, graphs = read(graph_module)

    assert without_code(document) == document
    assert list(graphs) == [(), ("inner",)]
    assert with_code(document, graphs) == build_document(graph_module)
    assert without_code(build_document(graph_module)) == document


@pytest.mark.parametrize("library", [fxcore, fx])
def test_code_is_written_with_other_names_and_the_graph_stays(library):
    graph_module = around(library.symbolic_trace(Net()))
    document, graphs = read(graph_module)
    before = [node.name for node in graph_module.inner.graph.nodes], graph_module.inner.code

    (module,) = document.modules
    other = module._replace(graph=rename_nodes(module.graph, {"add": "sum_1"}))
    other = replace(rename_nodes(document, {"inner": "y"}), modules=(other,))
    named = under_names_of(with_code(document, graphs), other, graphs)

    assert named.code == "def forward(self, x):\n    y = self.inner(x);  x = None\n    return y"
    assert [node.name for node in named.nodes] == ["x", "y", "output"]
    inner = named.modules[0].graph
    assert "    sum_1 = x + 1;  x = None\n    relu = torch.relu(sum_1);  sum_1 = None\n" in inner.code
    assert inner.nodes[2].args == ("%sum_1",)
    assert ([node.name for node in graph_module.inner.graph.nodes], graph_module.inner.code) == before


def test_without_code_names_alone_change():
    document, graphs = read(fxcore.symbolic_trace(Net()))

    named = under_names_of(document, rename_nodes(document, {"add": "first"}), graphs)

    assert (named.code, named.nodes[1].name) == ("", "first")


def test_code_that_is_not_of_the_graph_as_it_is_keeps_its_names():
    graph_module = fxcore.symbolic_trace(Net())
    add = next(iter(graph_module.graph.find_nodes(op="call_function", target=operator.add)))
    add.target = operator.sub  # and no recompile()
    document, graphs = read(graph_module)
    complete = with_code(document, graphs)

    assert under_names_of(complete, rename_nodes(complete, {"add": "first"}), graphs) == complete


def test_a_graph_that_a_hook_moved_keeps_its_names():
    document, graphs = read(fxcore.symbolic_trace(Net()))
    complete = with_code(document, graphs)

    assert under_names_of(complete, rename_nodes(complete, {"add": "first"}), {}) == complete


def test_names_that_two_nodes_of_the_graph_would_have_are_not_taken():
    document, graphs = read(fxcore.symbolic_trace(Net()))
    complete = with_code(document, graphs)

    assert under_names_of(complete, rename_nodes(complete, {"add": "relu"}), graphs) == complete


def test_the_codegen_of_a_graph_writes_the_copy_too():
    exported = torch.export.export(Net(), (torch.ones(2),)).module()
    document, graphs = read(fxcore.interop.from_torch(exported))
    complete = with_code(document, graphs)

    named = under_names_of(complete, rename_nodes(complete, {"add": "first"}), graphs)

    assert "pytree.tree_unflatten" in named.code
    assert named.code == complete.code.replace("add =", "first =").replace("(add)", "(first)")


def test_an_input_and_a_module_can_be_given_another_name():
    graph_module = around(fxcore.symbolic_trace(Net()))
    document, graphs = read(graph_module)
    targets = {"x": "arg0_1", "inner": "submod_0", "output": "output"}
    nodes = [node._replace(target=targets[node.target]) for node in document.nodes]
    (module,) = document.modules
    other = replace(document, nodes=tuple(nodes), modules=(module._replace(path="submod_0"),))

    named = under_names_of(with_code(document, graphs), other, graphs)

    assert named.code.startswith(
        "def forward(self, arg0_1):\n    x = arg0_1\n    inner = self.submod_0(x);  x = None\n"
    )
    assert [record.path for record in named.modules] == ["submod_0"]


def test_under_the_same_names_the_code_stays_also_where_the_other_document_has_no_inner_graph():
    document, graphs = read(around(fxcore.symbolic_trace(Net())))
    complete = with_code(document, graphs)
    (module,) = document.modules
    bare = replace(document, modules=(module._replace(graph=None),))

    assert under_names_of(complete, document, graphs) == complete
    assert under_names_of(complete, bare, graphs).modules == bare.modules
    assert under_names_of(replace(complete, modules=bare.modules), document, graphs).modules == document.modules


def test_the_code_is_that_of_the_given_graph_and_not_of_the_module_beside_it():
    graph_module, other = fxcore.symbolic_trace(Net()), fxcore.Graph()
    other.output(other.call_function(torch.neg, (other.placeholder("y"),)))

    for module in (graph_module, nn.Linear(1, 1)):
        assert build_document(module, graph=other).code.startswith("def forward(self, y):\n    neg = torch.neg(y)")
