from __future__ import annotations

from collections import namedtuple

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.shapes import arguments_in_order, positional_arguments, record_shapes, shapes_recorded
from pytest_fxgraph.errors import CaptureError

Pair = namedtuple("Pair", ["first", "second"])


def test_a_tuple_holds_the_positional_arguments():
    assert positional_arguments((1, [2])) == (1, [2])


def test_a_lone_tensor_is_one_argument():
    tensor = torch.zeros(2)

    assert positional_arguments(tensor) == (tensor,)


@pytest.mark.parametrize("inputs", [[torch.zeros(2)], {"x": 1}, 3, None, Pair(1, 2)])
def test_anything_else_is_a_type_error_that_says_so(inputs):
    with pytest.raises(TypeError, match=r"inputs: expected a tuple of positional arguments or a lone tensor, got \w+"):
        positional_arguments(inputs)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("offset", torch.ones(3, requires_grad=True))

    def forward(self, x):
        return x * self.scale + self.offset


def test_parameters_are_recorded_as_parameters_and_other_state_as_tensors():
    graph_module = fxcore.symbolic_trace(Scaled())

    record_shapes(graph_module, torch.zeros(2, 3))

    types = {node.target: node.meta["type"] for node in graph_module.graph.nodes if node.op == "get_attr"}
    assert types == {"scale": nn.Parameter, "offset": torch.Tensor}
    assert graph_module.graph.output_node().meta["tensor_meta"].shape == (2, 3)


def test_the_node_that_does_not_run_is_named():
    graph_module = fxcore.symbolic_trace(lambda x, y: torch.relu(x) @ y)

    with pytest.raises(
        CaptureError, match=r"the example inputs .*, at node 'matmul' \(call_function matmul\): RuntimeError: mat1 and"
    ):
        record_shapes(graph_module, (torch.ones(2, 3), torch.ones(2, 3)))
    with pytest.raises(CaptureError, match=r"at node 'y' \(placeholder y\): "):
        record_shapes(graph_module, (torch.ones(2, 3),))


def test_shapes_are_recorded_for_a_while():
    graph_module = fxcore.symbolic_trace(torch.nn.ReLU())
    x, relu, _ = graph_module.graph.nodes
    relu.meta["own"] = x.meta["type"] = 1

    with shapes_recorded(graph_module, torch.ones(2)):
        assert relu.meta["tensor_meta"].shape == (2,)
        assert x.meta["type"] is torch.Tensor
    assert relu.meta == {"own": 1}
    assert x.meta == {"type": 1}
    with shapes_recorded(graph_module, None, {"input": torch.ones(3)}):
        assert relu.meta["tensor_meta"].shape == (3,)
    with shapes_recorded(graph_module, None):
        assert relu.meta == {"own": 1}


def test_a_recorded_shape_takes_the_place_of_the_value_at_capture_time_and_state_is_as_before():
    model = torch.nn.BatchNorm1d(2).train()
    graph_module = fxcore.symbolic_trace(torch.nn.Sequential(model))
    for node in graph_module.graph.nodes:
        node.meta["val"] = torch.ones(9)
    given, before = torch.ones(3, 2), model.num_batches_tracked.clone()

    record_shapes(graph_module, given)

    assert ["val" in node.meta for node in graph_module.graph.nodes] == [False] * len(graph_module.graph.nodes)
    assert torch.equal(model.num_batches_tracked, before)


def test_keywords_fill_the_inputs_of_the_graph_in_its_order():
    def program(x, scale, shift=1.0, *rest):
        return x * scale + shift

    graph = fxcore.symbolic_trace(program)

    assert arguments_in_order(graph, (1,), {}) == (1,)
    assert arguments_in_order(graph, (1,), {"shift": 3, "scale": 2}) == (1, 2, 3)
    assert arguments_in_order(graph, (1,), {"scale": 2}) == (1, 2, 1.0)
    with pytest.raises(CaptureError, match=r"^example_kwargs: the graph's input 'scale' has no value$"):
        arguments_in_order(graph, (1,), {"shift": 3})
    with pytest.raises(CaptureError, match=r"^example_kwargs: the graph has no input 'x', 'bias' beyond example_inp"):
        arguments_in_order(graph, (1,), {"x": 3, "scale": 2, "bias": 4})
