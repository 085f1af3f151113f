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


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act = nn.Linear(4, 4), nn.ReLU()


class LayerBehindABranch(Layers):
    def forward(self, x):
        return self.layer(torch.cond(x.sum() > 0, lambda x: self.act(self.layer(x)), lambda x: -x, (x,)))


class LayerBehindANestedBranch(Layers):
    def forward(self, x):
        def outer(x):
            return self.layer(torch.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (x,)))

        return torch.cond(x.sum() > 0, outer, lambda x: x * self.layer.bias, (x,))


def several_in_one(x):
    w = x * 2

    def of_row(row):
        return torch.vmap(torch.sin)(row) + torch.vmap(torch.cos)(row) * torch.vmap(lambda item: item + w.sum())(row)

    return torch.vmap(of_row)(x)


def facts_from_outside(x, y):
    dtype, rank, real = y.dtype, y.ndim, y.real
    z = x.to(dtype)
    return torch.cond(x.sum() > 0, lambda x: x.to(dtype) * rank, lambda x: x + real.sum() + z, (x,))


def dtype_from_two_levels_outside(x, y):
    dtype, shape = y.dtype, y.shape

    def outer(x):
        return torch.cond(x.sum() > 1, lambda x: x.to(dtype) + y.sum(), lambda x: x.reshape(shape) * 2, (x,))

    return torch.cond(x.sum() > 0, outer, lambda x: x.to(dtype), (x,))


def parts_from_outside(x):
    parts = x.chunk(2, 1)
    return torch.cond(x.sum() > 0, lambda x: parts[0] + len(parts), lambda x: parts[1] * x.sum(), (x,))


def dict_from_outside(named, x):
    return torch.cond(x.sum() > 0, lambda x: named["a"] + x, lambda x: torch.stack(list(named.values())).sum(0), (x,))


def operands_of_one_branch(x):
    a, b, c = x * 2, x * 3, x * 4
    return torch.cond(x.sum() > 0, lambda y: a - b, lambda y: b + a * c + y, (c,))


X = torch.rand(3, 4)


@pytest.mark.parametrize(
    ("function", "example", "graphs"),
    [
        (
            LayerBehindABranch(),
            (X,),
            {
                "": "x sum_1 gt layer_weight layer_bias true_graph_0 false_graph_0 cond getitem layer output",
                "true_graph_0": "x layer_weight layer_bias linear act output",
                "false_graph_0": "x layer_weight layer_bias neg output",
            },
        ),
        (
            LayerBehindANestedBranch(),
            (X,),
            {
                "": "x sum_1 gt layer_weight layer_bias true_graph_0 false_graph_0 cond getitem output",
                "true_graph_0": "x layer_weight layer_bias sum_1 gt true_graph_0 false_graph_0 cond getitem "
                "linear output",
                "true_graph_0.true_graph_0": "x add output",
                "true_graph_0.false_graph_0": "x sub output",
                "false_graph_0": "x layer_weight layer_bias mul output",
            },
        ),
        (
            several_in_one,
            (X,),
            {
                "": "x mul vmap_graph_0 vmap output",
                "vmap_graph_0": "row mul vmap_graph_0 vmap vmap_graph_1 vmap_1 vmap_graph_2 vmap_2 mul_1 add output",
                "vmap_graph_0.vmap_graph_0": "operand_0 sin output",
                "vmap_graph_0.vmap_graph_1": "operand_0 cos output",
                "vmap_graph_0.vmap_graph_2": "item mul sum_1 add output",
            },
        ),
        (
            facts_from_outside,
            (X, X.clone()),
            {
                "": "x y getattr_1 to sum_1 gt getattr_2 getattr_3 true_graph_0 false_graph_0 cond getitem output",
                "true_graph_0": "x y getattr_2 getattr_3 to_1 getattr_1 to mul output",
                "false_graph_0": "x y getattr_2 getattr_3 to sum_1 add add_1 output",
            },
        ),
        (
            dtype_from_two_levels_outside,
            (X, X.clone()),
            {
                "": "x y sum_1 gt true_graph_0 false_graph_0 cond getitem output",
                "true_graph_0": "x y sum_1 gt true_graph_0 false_graph_0 cond getitem output",
                "true_graph_0.true_graph_0": "x y getattr_1 to sum_1 add output",
                "true_graph_0.false_graph_0": "x y getattr_1 reshape mul output",
                "false_graph_0": "x y getattr_1 to output",
            },
        ),
        (
            parts_from_outside,
            (X,),
            {
                "": "x chunk sum_1 gt getitem getitem_1 true_graph_0 false_graph_0 cond getitem_2 output",
                "true_graph_0": "x getitem getitem_1 add output",
                "false_graph_0": "x getitem getitem_1 sum_1 mul output",
            },
        ),
        (
            dict_from_outside,
            ({"a": X, "b": -X}, X.clone()),
            {
                "": "named x sum_1 gt getitem getitem_1 getitem_2 true_graph_0 false_graph_0 cond getitem_3 output",
                "true_graph_0": "x getitem getitem_1 getitem_2 add output",
                "false_graph_0": "x getitem getitem_1 getitem_2 stack sum_1 output",
            },
        ),
        (
            operands_of_one_branch,
            (X,),
            {
                "": "x mul mul_1 mul_2 sum_1 gt true_graph_0 false_graph_0 cond getitem output",
                "true_graph_0": "y mul mul_1 mul_2 sub output",
                "false_graph_0": "y mul mul_1 mul_2 mul_3 add add_1 output",
            },
        ),
    ],
)
def test_a_graph_and_its_inner_graphs_have_these_nodes(function, example, graphs):
    graph_module = fxcore.symbolic_trace(function, example_inputs=example)

    inner = {path: each for path, each in graph_module.named_modules() if isinstance(each, fxcore.GraphModule)}
    assert {path: " ".join(node.name for node in each.graph.nodes) for path, each in inner.items()} == graphs
    graph_module.graph.lint()


@pytest.mark.parametrize("is_written", [False, True])
def test_a_function_of_an_operator_may_not_write_a_value_from_outside(is_written):
    def program(x, y):
        return torch.cond(x.sum() > 0, lambda x: x + (y.mul_(2) if is_written else y.mul(2)), lambda x: -x, (x,))

    example = torch.rand(3), torch.rand(3)
    if is_written:
        with pytest.raises(TraceError, match="the function that becomes 'true_graph' writes 'y' in place"):
            fxcore.symbolic_trace(program, example_inputs=example)
    else:
        graph_module = fxcore.symbolic_trace(program, example_inputs=example)
        assert torch.equal(graph_module(*example), program(*example))


def test_a_value_of_a_branch_is_used_in_no_other_branch():
    kept = []

    def program(x):
        return torch.cond(x.sum() > 0, lambda x: kept.append(x * 2) or -x, lambda x: kept[0] + x, (x,))

    with pytest.raises(TraceError, match=r"^the value 'mul' was made in a function .* and is used outside of it"):
        fxcore.symbolic_trace(program, example_inputs=torch.rand(3))
