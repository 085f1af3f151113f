from __future__ import annotations

import builtins
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.fx
import torch.fx.passes.graph_drawer as theirs
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp

import fxcore
from fxcore.passes.graph_drawer import FxGraphDrawer
from fxcore.passes.shape_prop import ShapeProp

pytest.importorskip("pydot")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.weight = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        y = self.norm(self.conv(x)) * self.weight
        values, _ = torch.max(y, dim=1, keepdim=True)
        return torch.nn.functional.relu(values).clamp(min=0.0, max=1.0) + sum([{"a": 1}["a"], 2])


def traced(fx, propagate):
    gm = fx.symbolic_trace(Model())
    propagate(gm).propagate(torch.randn(1, 3, 8, 8))
    return gm


OPTIONS = [
    {},
    {"ignore_getattr": True, "ignore_parameters_and_buffers": True},
    {"skip_node_names_in_args": False},
    {"dot_graph_shape": "box"},
    {"normalize_args": True, "skip_node_names_in_args": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda it: "-".join(it) or "plain")
def test_a_drawing_is_that_of_torch(options):
    ours = FxGraphDrawer(traced(fxcore, ShapeProp), "model", **options)
    expected = theirs.FxGraphDrawer(traced(torch.fx, TorchShapeProp), "model", **options)

    assert ours.get_dot_graph().to_string() == expected.get_dot_graph().to_string()


def nested(fx):
    inner = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    graph = fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    return fx.GraphModule({"inner": inner}, graph)


def test_graph_modules_inside_have_drawings_of_their_own():
    ours, expected = FxGraphDrawer(nested(fxcore), "outer"), theirs.FxGraphDrawer(nested(torch.fx), "outer")

    assert list(ours.get_all_dot_graphs()) == ["outer", "outer_inner"]
    drawn = ours.get_dot_graph("inner").to_string()
    assert drawn == expected.get_dot_graph("inner").to_string()


def test_quantized_tensors_show_their_parameters():
    def draw(fx, drawer, propagate):
        gm = fx.symbolic_trace(lambda x: torch.quantize_per_tensor(x, 0.5, 1, torch.quint8))
        propagate(gm).propagate(torch.randn(2))
        return drawer(gm, "q").get_dot_graph().to_string()

    text = draw(fxcore, FxGraphDrawer, ShapeProp)

    assert "q_scale=0.5" in text
    assert text == draw(torch.fx, theirs.FxGraphDrawer, TorchShapeProp)


def test_the_line_of_source_is_shown_if_asked_for():
    def draw(fx, drawer):
        tracer = fx.Tracer()
        tracer.record_stack_traces = True
        model = Model()
        gm = fx.GraphModule(model, tracer.trace(model))
        return drawer(gm, "lines", parse_stack_trace=True).get_dot_graph().to_string()

    text = draw(fxcore, FxGraphDrawer)

    assert "passes/test_graph_drawer.py:" in text
    assert "y = self.norm(self.conv(x)) * self.weight" in text


@pytest.mark.parametrize(("count", "is_boxed"), [(1, False), (2, True)])
def test_nodes_of_one_buffer_stand_in_a_box(count, is_boxed):
    def draw(fx, drawer):
        gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        for node in gm.graph.nodes:
            if node.op == "call_function":
                node.meta["buf_meta"] = SimpleNamespace(name="buf0", n_origin=count)
        return drawer(gm, "boxed").get_dot_graph().to_string()

    text = draw(fxcore, FxGraphDrawer)

    assert ("subgraph cluster_buf0" in text) == is_boxed
    assert text == draw(torch.fx, theirs.FxGraphDrawer)


def test_metadata_of_torch_is_drawn_too():
    import fxcore.interop

    gm = traced(torch.fx, TorchShapeProp)

    ours = FxGraphDrawer(fxcore.interop.from_torch(gm), "model").get_dot_graph().to_string()

    assert ours == theirs.FxGraphDrawer(gm, "model").get_dot_graph().to_string()


def test_without_pydot_an_error_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "pydot":
            raise ModuleNotFoundError("No module named 'pydot'")
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "pydot")
    monkeypatch.setattr(builtins, "__import__", refuse)

    with pytest.raises(RuntimeError, match=r"requires the pydot package to be installed.*pip install pydot"):
        FxGraphDrawer(fxcore.symbolic_trace(nn.ReLU()), "name")


def test_metadata_of_another_kind_is_drawn_as_in_torch_or_refused():
    def draw(fx, drawer, propagate, meta):
        gm = traced(fx, propagate)
        node = gm.graph.find_nodes(op="call_function", target=torch.nn.functional.relu)[0]
        node.meta["tensor_meta"] = meta(node.meta["tensor_meta"])
        return drawer(gm, "model").get_dot_graph().to_string()

    text = draw(fxcore, FxGraphDrawer, ShapeProp, lambda meta: {"a": meta, "b": [None, meta]})

    assert text == draw(torch.fx, theirs.FxGraphDrawer, TorchShapeProp, lambda meta: {"a": meta, "b": [None, meta]})
    with pytest.raises(RuntimeError, match=r"Unsupported tensor meta type <class 'str'>: it must be what ShapeProp"):
        draw(fxcore, FxGraphDrawer, ShapeProp, str)


def test_a_module_that_is_gone_cannot_be_drawn():
    gm = traced(fxcore, ShapeProp)
    gm.delete_submodule("conv")

    with pytest.raises(RuntimeError, match=r"conv cannot be drawn: Model does not have attribute: .*conv"):
        FxGraphDrawer(gm, "model")
