"""Values from outside in functions that become inner graphs."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import TraceError


def names_of_inputs(graph_module):
    return [str(node) for node in graph_module.graph.find_nodes(op="placeholder")]


def test_a_value_is_an_input_once_however_often_it_is_used():
    def program(x):
        y = x * 2
        return torch.cond(x.sum() > 0, lambda x: y * y + x, lambda x: y - x, (x,))

    graph_module = fxcore.symbolic_trace(program, example_inputs=torch.rand(3))

    assert names_of_inputs(graph_module.true_graph_0) == names_of_inputs(graph_module.false_graph_0) == ["x", "mul"]


def test_a_number_made_of_sizes_is_an_input_and_an_attribute_is_read_inside():
    def program(x):
        rows, scale = x.shape[0] * 2, x.shape[1] ** -0.5
        return torch.cond(x.sum() > 0, lambda x: x * rows, lambda x: (x * scale).to(x.dtype), (x,))

    graph_module = fxcore.symbolic_trace(program, example_inputs=torch.rand(3, 4))

    node = graph_module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)[0]
    assert [each.name for each in node.args[3]] == ["x", "mul", "getitem_1"]
    assert "getitem_1 ** -0.5" in graph_module.false_graph_0.code
    torch.testing.assert_close(graph_module(torch.ones(5, 9)), torch.full((5, 9), 10.0))
    torch.testing.assert_close(graph_module(-torch.ones(5, 9)), torch.full((5, 9), -1 / 3))


def test_a_parameter_that_two_operators_use_is_read_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = torch.vmap(self.layer)(x)
            return torch.cond(y.sum() > 0, self.layer, lambda x: x * self.layer.bias, (y,))

    graph_module = fxcore.symbolic_trace(Twice(), example_inputs=torch.rand(3, 4))

    assert graph_module.code.count("self.layer.weight") == 1
    assert graph_module.code.count("self.layer.bias") == 1
    assert list(graph_module.state_dict()) == ["layer.weight", "layer.bias"]


def test_the_model_does_not_keep_inner_graphs_and_a_second_trace_is_equal():
    model = nn.Sequential(nn.Linear(4, 4))
    model.forward = lambda x: torch.cond(x.sum() > 0, model[0], lambda x: x * 2, (x,))

    first, second = [fxcore.symbolic_trace(model, example_inputs=torch.rand(3, 4)) for _ in range(2)]

    assert list(dict(model.named_modules())) == ["", "0"]
    assert first.code == second.code


def test_values_of_the_example_are_not_kept():
    kept = []

    class Model(nn.Module):
        def forward(self, x):
            y = x * 2
            kept.append(weakref.ref(y))
            return torch.cond(x.sum() > 0, lambda x: x + y, lambda x: x - y, (x,))

    graph_module = fxcore.symbolic_trace(Model(), example_inputs=torch.rand(3, 4))
    gc.collect()

    assert graph_module is not None
    assert [reference() for reference in kept] == [None] * len(kept)


@pytest.mark.slow
def test_a_number_drawn_outside_cannot_be_computed_again():
    import random

    def program(x):
        factor = random.uniform(1, 2)
        return torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: x + 0, (x,))

    with pytest.raises(TraceError, match="a float cannot be an input of it\nCompute it from tensors in the function"):
        fxcore.symbolic_trace(program, example_inputs=torch.rand(3))


def test_a_dtype_that_a_branch_reads_is_read_in_the_branch_alone():
    def program(x, y):
        dtype = y.dtype
        return torch.cond(x.sum() > 0, lambda x: x.to(dtype), lambda x: x * 2, (x,))

    graph_module = fxcore.symbolic_trace(program, example_inputs=(torch.rand(3), torch.rand(2)))

    reads = [node.name for node in graph_module.graph.nodes if node.target is getattr]
    branches = [inner for inner in graph_module.children() if isinstance(inner, fxcore.GraphModule)]
    assert reads == []
    assert [sum(node.target is getattr for node in inner.graph.nodes) for inner in branches] == [1, 0]
