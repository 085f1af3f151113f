from __future__ import annotations

from collections import namedtuple

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.shapes import arguments_in_order, positional_arguments, record_shapes
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
