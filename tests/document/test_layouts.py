from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

from fxcore import Graph, GraphModule
from fxcore.passes.shape_prop import ShapeProp
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.layouts import extent
from pytest_fxgraph.document.tensor_texts import tensor_text, value_of

IMAGES = torch.ones(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.ones(2, 3), "float32[2, 3]"),
        (torch.ones(()), "float32[]"),
        (torch.ones(2, 3).t(), "float32[3, 2] strides=(1, 3)"),
        (torch.ones(6)[::2], "float32[3] strides=(2,)"),
        (torch.ones(1, 3).expand(2, 3), "float32[2, 3] strides=(0, 1)"),
        (torch.ones(2, 1, 3).transpose(0, 2), "float32[3, 1, 2] strides=(1, *, 3)"),
        (torch.ones(1, 3).t(), "float32[3, 1]"),
        (torch.ones(0, 3).t(), "float32[3, 0]"),
        (IMAGES.to(memory_format=torch.channels_last), "float32[2, 3, 4, 5] channels_last"),
        (torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d), "float32[2, 3, 4, 5, 6] channels_last_3d"),
        (nn.Parameter(torch.ones(2, 3).t()), "float32[3, 2] strides=(1, 3)"),
        (torch.eye(2).to_sparse(), "float32[2, 2]"),
    ],
)
def test_a_layout_is_written_where_a_tensor_is_not_contiguous(tensor, text):
    assert tensor_text(tensor) == text


def test_metadata_of_shape_propagation_tells_the_layout_too():
    gm = to_graph_module(lambda x: x.t())

    ShapeProp(gm).propagate(torch.ones(2, 3))

    assert [value_of(node.meta) for node in gm.graph.nodes][1] == "float32[3, 2] strides=(1, 3)"


def test_symbolic_layouts_are_written_without_guards():
    program = export(Transposed(), (torch.ones(8, 2),), dynamic_shapes=({0: Dim("rows")},), strict=False)
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    guards = len(node.meta["val"].fake_mode.shape_env.guards)

    _, rows = tensor_text(node.meta["val"]).split("[")[1].split("]")[0].split(", ")

    assert tensor_text(node.meta["val"]) == f"float32[2, {rows}] strides=(1, 2)"
    assert not rows.isdigit()
    assert len(node.meta["val"].fake_mode.shape_env.guards) == guards


class Transposed(nn.Module):
    def forward(self, x):
        return x.t()


def test_captured_values_go_before_older_notes_on_shapes_and_example_inputs_before_both():
    gm = to_graph_module(make_fx(lambda x: x.sin())(torch.ones(2)))
    (node,) = [node for node in gm.graph.nodes if node.op == "call_function"]
    node.meta["val"] = torch.ones(3, device="meta")

    assert value_of(node.meta) == "float32[3]"
    with shapes_recorded(gm, torch.ones(5)):
        assert value_of(node.meta) == "float32[5]"
    assert value_of(node.meta) == "float32[3]"


def test_inputs_outputs_and_state_tell_their_layouts_in_a_golden():
    root = nn.ModuleDict({"conv": nn.Conv2d(3, 3, 3).to(memory_format=torch.channels_last)})
    graph = Graph()
    graph.output(graph.call_module("conv", (graph.placeholder("x"),)))
    gm = GraphModule(root, graph)

    with shapes_recorded(gm, IMAGES.to(memory_format=torch.channels_last)):
        document = build_document(gm)

    assert [node.value.partition("]")[2] for node in document.nodes[:2]] == [" channels_last", " channels_last"]
    assert [record.value for record in document.state] == ["float32[3, 3, 3, 3] channels_last", "float32[3]"]


@pytest.mark.parametrize(
    ("tensor", "elements"),
    [
        (torch.ones(2, 3), 6),
        (torch.ones(()), 1),
        (torch.ones(6)[::2], 5),
        (torch.ones(1, 3).expand(2, 3), 3),
        (torch.ones(0, 3), 0),
    ],
)
def test_the_extent_of_a_tensor_is_the_memory_between_its_first_and_last_element(tensor, elements):
    assert extent(tensor.shape, tensor.stride()) == elements
    assert extent(tensor.shape, ()) == (1 if not tensor.shape else 0)
