"""Graphs inside graphs are told wherever they hang."""

from __future__ import annotations

import hashlib
import types

import pytest
import torch
from torch import nn
from torch.export import export, unflatten

from fixtures.captured_subjects import Branches
from fixtures.lowered import CompileSpec, with_delegate
from fxcore import Graph, GraphModule, symbolic_trace
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.modules import Attributes
from pytest_fxgraph.document.nested_graphs import attribute_of, graphs_in, is_delegate, is_graph_module
from pytest_fxgraph.errors import DocumentError
from pytest_fxgraph.operator_queries import OpsQuery


def records(gm):
    return {module.path: module for module in build_document(gm).modules}


def targets(document):
    return [node.target for node in document.nodes if node.op not in ("placeholder", "output")]


def calling(leaf):
    graph = Graph()
    graph.output(graph.call_module("leaf", (graph.placeholder("x"),)))
    return GraphModule(nn.ModuleDict({"leaf": leaf}), graph)


def test_the_branches_of_a_condition_are_graphs_of_their_own():
    document = build_document(to_graph_module(export(Branches(), (torch.rand(4, 4),), strict=False)))

    branches = [module.graph for module in document.modules]

    assert [targets(graph)[-1] for graph in branches] == ["aten.relu.default", "aten.mul.Tensor"]


def test_the_body_of_a_loop_and_of_a_map_are_graphs_of_their_own():
    from torch._higher_order_ops.map import map as map_over
    from torch._higher_order_ops.while_loop import while_loop

    class Loops(nn.Module):
        def forward(self, x):
            (y,) = while_loop(lambda y: y.sum() < 9, lambda y: (y.sin() + 2,), (x,))
            return map_over(lambda row: row.cos(), y)

    document = build_document(to_graph_module(export(Loops(), (torch.ones(2, 2),))))

    found = {target for module in document.modules for target in targets(module.graph)}
    assert {"aten.sin.default", "aten.cos.default", "aten.lt.Scalar"} <= found


def test_the_branches_of_a_trace_with_an_example_are_graphs_of_their_own():
    def program(x):
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: torch.vmap(lambda row: row.cos())(x), (x,))

    document = build_document(symbolic_trace(program, example_inputs=torch.rand(2, 2)))

    branches = {module.path: module.graph for module in document.modules}
    assert targets(branches["true_graph_0"]) == ["relu"]
    assert targets(branches["false_graph_0"])[-1] == "fxcore.guided.transforms.vmap"


def test_a_delegate_tells_its_graph_its_backend_and_what_it_made():
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),), strict=False)
    large = b"x" * 65
    gm = with_delegate(
        program, specs=[CompileSpec("mode", b"\x01"), CompileSpec("blob", large), CompileSpec("n", 2), 3]
    )

    document = build_document(gm)
    (record,) = document.modules

    assert record.kind == "fixtures.lowered.LoweredBackendModule"
    assert dict(record.config) == {
        "backend_id": '"Xnn"',
        "processed_bytes": f"sha256={hashlib.sha256(MADE).hexdigest()}",
        "compile_specs": f'[mode=b"\\x01", blob=sha256={hashlib.sha256(large).hexdigest()}, n=2, 3]',
    }
    assert targets(record.graph) == ["aten.linear.default"]
    assert document.state == ()


def test_a_delegate_that_does_not_keep_its_graph_tells_the_rest():
    (record,) = build_document(with_delegate(None)).modules

    assert record.graph is None
    assert dict(record.config)["backend_id"] == '"Xnn"'


def test_modules_of_an_unflattened_program_are_graphs():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, x):
            return self.inner(x) + 1

    modules = records(to_graph_module(unflatten(export(Outer(), (torch.ones(1, 2),)))))

    assert targets(modules["inner"].graph) == ["0", "1"]
    first, second = modules["inner"].graph.modules
    assert targets(first.graph)[-1] == "aten.linear.default"
    assert targets(second.graph) == ["aten.relu.default"]
    assert "linear" in first.graph.code


MADE = b"\x00made"


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = symbolic_trace(nn.Sequential(nn.ReLU()))
        self.stages = [symbolic_trace(nn.Sequential(nn.Tanh())), 3]
        self.by_name = {"a": symbolic_trace(nn.Sequential(nn.GELU()))}
        self._again = (self.stages[0],)

    def forward(self, x):
        return x


def test_graphs_in_modules_lists_and_dicts_of_a_leaf_module_are_told():
    modules = records(calling(Holder()))

    assert {path: module.same_as for path, module in modules.items()} == {
        "leaf": None,
        "leaf.inner": None,
        "leaf.stages[0]": None,
        "leaf.by_name[a]": None,
        "leaf._again[0]": "leaf.stages[0]",
    }
    assert [module.kind for module in modules["leaf.inner"].graph.modules] == ["torch.nn.ReLU"]
    assert [module.kind for module in modules["leaf.stages[0]"].graph.modules] == ["torch.nn.Tanh"]


def test_a_leaf_that_knows_the_graph_it_is_in_is_no_circle():
    leaf = Holder()
    gm = calling(leaf)
    leaf.parents = [gm]

    assert "leaf.parents[0]" not in records(gm)
    assert "leaf.stages[0]" in records(gm)
    assert OpsQuery(gm).count("torch.nn.Tanh") == 1


class Broken(GraphModule):
    @property
    def code(self):
        return self.nothing_of_the_kind

    @property
    def scale(self):
        return self.no_such_scale


def test_an_error_in_a_property_of_a_graph_module_is_told_as_it_is():
    graph = Graph()
    graph.output(graph.placeholder("x"))
    with pytest.raises(DocumentError, match=r"the code of this GraphModule: .*'nothing_of_the_kind'"):
        build_document(Broken(nn.Module(), graph))

    read = Graph()
    read.output(read.create_node("get_attr", "scale"))
    gm = Broken(nn.Module(), graph)
    gm.graph = read
    with pytest.raises(DocumentError, match=r"the property 'scale' of GraphModule raised .*no_such_scale"):
        build_document(gm)


def test_a_graph_module_whose_graph_fails_is_not_taken_for_another_module():
    class Failing(GraphModule):
        @property
        def graph(self):
            raise AttributeError("the graph is not there yet")

    made = Failing.__new__(Failing)
    nn.Module.__init__(made)

    with pytest.raises(AttributeError, match="not there yet"):
        is_graph_module(made)


class OfTheUser(nn.Module):
    """A user's module with a property `graph` that fails, and no graph module."""

    @property
    def graph(self):
        return self.missing


def test_a_property_graph_of_a_users_module_that_fails_makes_it_no_graph():
    assert not is_graph_module(OfTheUser())


def test_an_attribute_is_asked_for_with_or_without_a_default():
    assert attribute_of(nn.ReLU(), "missing", 3) == 3
    assert attribute_of(nn.ReLU(), "missing", None) is None
    assert attribute_of(nn.Linear(2, 3), "out_features", 4) == 3
    with pytest.raises(AttributeError, match="missing"):
        attribute_of(nn.ReLU(), "missing")


def test_a_layer_with_a_graph_of_its_own_is_a_graph_module():
    layer = nn.ReLU()
    assert not is_graph_module(layer)

    layer.graph = Graph()

    assert is_graph_module(layer)


def test_a_delegate_is_a_module_that_says_all_of_a_backend():
    delegate = with_delegate(None).lowered_module_0
    values = dict.fromkeys(("original_module", "backend_id", "processed_bytes", "compile_specs"))

    assert is_delegate(delegate)
    assert not is_delegate(nn.ReLU())
    assert not is_delegate(types.SimpleNamespace(**values))


def test_graphs_are_listed_once_each_and_without_the_graphs_inside_them():
    inner = symbolic_trace(nn.Sequential(nn.ReLU()))
    outer = calling(inner)
    root = nn.Module()
    root.leaf, root.outer, root.lowered, root.relu = Holder(), outer, with_delegate(inner).lowered_module_0, nn.ReLU()
    root.leaf.nested, root.leaf.last = outer, nn.Sequential(inner)
    graph = Graph()
    x = graph.placeholder("x")
    graph.output([graph.call_module(path, (x,)) for path in ("relu", "leaf", "outer", "lowered")])

    found = dict(graphs_in(graph, Attributes(root)))

    assert list(found) == ["leaf.stages[0]", "leaf.by_name[a]", "leaf.inner", "leaf.nested", "leaf.last.0"]
    assert found["leaf.nested"] is outer
    lowered = Graph()
    lowered.output(lowered.call_module("lowered", (lowered.placeholder("x"),)))
    assert [path for path, _ in graphs_in(lowered, Attributes(root))] == ["lowered"]
