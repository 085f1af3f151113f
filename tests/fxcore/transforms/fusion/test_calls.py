"""Layers and batch norms are read from every spelling of their calls."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.transforms.fusion.calls import (
    Fused,
    StateUses,
    argument,
    has_hooks,
    is_layer_function,
    layer_call,
    norm_call,
    place_of,
    tensor_of,
)

aten = torch.ops.aten


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3, groups=2)
        self.up = nn.ConvTranspose2d(4, 4, 3, groups=2)
        self.fc = nn.Linear(4, 6)
        self.norm = nn.BatchNorm2d(6)
        self.act = nn.ReLU()
        self.matrix = nn.Parameter(torch.randn(4, 6))
        self.vector = nn.Parameter(torch.randn(6))
        self.number = 3


def graph_of(op, target, args=(), kwargs=None):
    """Build a graph with one call; texts of arguments that begin with `self.` are read from the module."""
    graph = fxcore.Graph()
    x = graph.placeholder("x")

    def value(arg):
        if arg == "x":
            return x
        return graph.get_attr(arg[5:]) if isinstance(arg, str) and arg.startswith("self.") else arg

    args, kwargs = tuple(map(value, args)), {name: value(arg) for name, arg in (kwargs or {}).items()}
    node = graph.create_node(op, target, args, kwargs)
    graph.output(node)
    return node, fxcore.GraphModule(Root(), graph)


def layer_of(target, args, kwargs=None):
    return layer_call(*graph_of("call_function", target, args, kwargs))


def norm_of(target, args, kwargs=None):
    return norm_call(*graph_of("call_function", target, args, kwargs))


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [((1, 2), {}, 2), ((1,), {"b": 3}, 3), ((1,), {}, 9), ((), {"b": 3}, 3), ((1, 2), {"c": 5}, 2)],
)
def test_an_argument_is_found_by_position_or_keyword(args, kwargs, found):
    node, _ = graph_of("call_function", F.linear, args, kwargs)

    assert argument(node, ("a", "b"), "b", 9) == found
    assert argument(node, ("a", "b"), "unknown", 9) == 9


# Layers.


@pytest.mark.parametrize(
    ("path", "is_linear", "is_transposed", "groups", "channels"),
    [("conv", False, False, 2, 6), ("up", False, True, 2, 4), ("fc", True, False, 1, 6)],
)
def test_a_module_is_a_layer_with_its_facts(path, is_linear, is_transposed, groups, channels):
    node, gm = graph_of("call_module", path, ("x",))
    call = layer_call(node, gm)

    assert (call.node, call.module, call.names) == (node, gm.get_submodule(path), ())
    assert call.weight is call.module.weight
    assert call.bias is call.module.bias
    assert (call.is_linear, call.is_transposed, call.groups) == (is_linear, is_transposed, groups)
    assert (call.is_addmm, call.channels) == (False, channels)


def test_other_classes_of_modules_and_other_nodes_are_no_layers():
    node, gm = graph_of("call_module", "fc", ("x",))

    assert layer_call(node, gm, (nn.Conv2d,)) is None
    assert layer_call(*graph_of("call_module", "act", ("x",))) is None
    assert layer_call(None, gm) is None
    assert layer_call(next(iter(gm.graph.nodes)), gm) is None
    assert layer_of(torch.relu, ("x",)) is None


CONV = ("x", "self.conv.weight", "self.conv.bias")
UP = ("x", "self.up.weight", "self.up.bias")


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "facts"),
    [
        (F.linear, ("x", "self.fc.weight", "self.fc.bias"), {}, (True, False, 1, 6)),
        (aten.linear.default, ("x", "self.fc.weight"), {}, (True, False, 1, 6)),
        (F.linear, ("x",), {"weight": "self.fc.weight", "bias": "self.fc.bias"}, (True, False, 1, 6)),
        (F.conv2d, CONV, {"groups": 2}, (False, False, 2, 6)),
        (F.conv2d, CONV, {"groups": None}, (False, False, 1, 6)),
        (F.conv2d, (*CONV, 1, 0, 1, 2), {}, (False, False, 2, 6)),
        (aten.conv2d.default, CONV, {}, (False, False, 1, 6)),
        (aten.conv2d.padding, (*CONV, 1, "same", 1, 2), {}, (False, False, 2, 6)),
        (F.conv_transpose2d, (*UP, 1, 0, 0, 2), {}, (False, True, 2, 4)),
        (aten.conv_transpose2d.input, UP, {}, (False, True, 1, 2)),
        (aten.convolution.default, (*CONV, [1], [0], [1], False, [0], 2), {}, (False, False, 2, 6)),
        (aten.convolution.default, (*UP, [1], [0], [1], True, [0], 2), {}, (False, True, 2, 4)),
    ],
)
def test_a_function_is_a_layer_with_its_facts(target, args, kwargs, facts):
    call = layer_of(target, args, kwargs)

    assert (call.is_linear, call.is_transposed, call.groups, call.channels) == facts
    assert call.module is None
    assert (call.bias is None) == (len(args) < 3 and "bias" not in kwargs)
    assert is_layer_function(call.node)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_convolutions_of_each_size_are_layers(size):
    weight = "self.conv.weight"
    plain, packet = getattr(aten, f"conv{size}d"), getattr(aten, f"conv_transpose{size}d")
    straight = (getattr(F, f"conv{size}d"), plain.default, plain.padding)
    turned = (getattr(F, f"conv_transpose{size}d"), packet.default if size == 1 else packet.input)

    assert not any(layer_of(target, ("x", weight)).is_transposed for target in straight)
    assert all(layer_of(target, ("x", weight)).is_transposed for target in turned)


def test_addmm_is_a_layer_with_a_turned_weight():
    call = layer_of(aten.addmm.default, ("self.vector", "x", "self.matrix"))

    assert (call.is_addmm, call.is_linear, call.channels) == (True, True, 6)
    assert torch.equal(call.scaled(torch.arange(6.0)), call.weight * torch.arange(6.0))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("self.vector", "x", "self.vector"), {}),
        (("self.matrix", "x", "self.matrix"), {}),
        (("self.vector", "x", "self.matrix"), {"beta": 2}),
        ((None, "x", "self.matrix"), {}),
        (("x", "x", "self.matrix"), {}),
    ],
)
def test_addmm_of_other_shapes_or_with_factors_is_no_layer(args, kwargs):
    assert layer_of(aten.addmm.default, args, kwargs) is None


def test_a_function_with_a_computed_weight_or_bias_is_no_layer():
    assert layer_of(F.linear, ("x", "x")) is None
    assert layer_of(F.linear, ("x", "self.fc.weight", "x")) is None
    assert layer_of(F.linear, ("x", "self.number")) is None


@pytest.mark.parametrize("path", ["conv", "up", "fc"])
def test_a_scaled_weight_scales_each_channel_of_the_result(path):
    node, gm = graph_of("call_module", path, ("x",))
    call = layer_call(node, gm)
    scale = torch.arange(1.0, call.channels + 1, dtype=torch.float64)
    layer = gm.get_submodule(path).double()
    x = torch.randn(2, 4, dtype=torch.float64) if path == "fc" else torch.randn(2, 4, 5, 5, dtype=torch.float64)
    bias = layer.bias.view(-1, *[1] * (x.dim() - 2))
    expected = (layer(x) - bias) * scale.view(-1, *[1] * (x.dim() - 2))
    scaled = call.scaled(scale)
    layer.weight = nn.Parameter(scaled)

    assert scaled.dtype == torch.float64
    assert torch.allclose(layer(x) - bias, expected)


# Batch norm.

STATE = ("self.norm.running_mean", "self.norm.running_var")
SCALE = ("self.norm.weight", "self.norm.bias")


@pytest.mark.parametrize("arguments", [(("x",), {}), ((), {"input": "x"})])
def test_a_module_of_batch_norm_is_read(arguments):
    node, gm = graph_of("call_module", "norm", *arguments)
    call = norm_call(node, gm)

    assert (call.node, call.result, call.source.name) == (node, node, "x")
    assert (call.mean is gm.norm.running_mean, call.variance is gm.norm.running_var) == (True, True)
    assert (call.weight is gm.norm.weight, call.bias is gm.norm.bias) == (True, True)
    assert (call.is_training, call.eps) == (True, 1e-5)
    assert norm_call(*graph_of("call_module", "act", ("x",))) is None


@pytest.mark.parametrize(
    ("target", "args", "is_training", "eps"),
    [
        (F.batch_norm, ("x", *STATE, *SCALE, True, 0.1, 1e-3), True, 1e-3),
        (F.batch_norm, ("x", *STATE, *SCALE), False, 1e-5),
        (torch.batch_norm, ("x", *SCALE, *STATE, True, 0.1, 1e-3, True), True, 1e-3),
        (aten.batch_norm.default, ("x", *SCALE, *STATE, False, 0.1, 1e-3, True), False, 1e-3),
    ],
)
def test_a_function_of_batch_norm_is_read(target, args, is_training, eps):
    call = norm_of(target, args)

    assert (call.source.name, call.result) == ("x", call.node)
    assert (call.is_training, call.eps) == (is_training, eps)
    assert [tensor.sum().item() for tensor in (call.mean, call.variance, call.weight, call.bias)] == [0, 6, 6, 0]
    assert norm_of(torch.relu, ("x",)) is None


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (aten.native_batch_norm.default, ("x", *SCALE, *STATE, False, 0.1, 1e-3)),
        (aten._native_batch_norm_legit_no_training.default, ("x", *SCALE, *STATE, 0.1, 1e-3)),
    ],
)
def test_the_result_of_a_norm_with_statistics_is_its_first_item_alone(target, args):
    node, gm = graph_of("call_function", target, args)
    output = next(iter(node.users))
    with gm.graph.inserting_after(node):
        item = gm.graph.call_function(operator.getitem, (node, 0))

    assert norm_call(node, gm).result is None  # the output reads the node, too
    output.args = (item,)
    call = norm_call(node, gm)
    assert (call.result, call.is_training, call.eps) == (item, False, 1e-3)
    item.args = (node, 1)
    assert norm_call(node, gm).result is None
    output.args = (node,)
    gm.graph.erase_node(item)
    assert norm_call(node, gm).result is None


@pytest.mark.parametrize("computed", [3, 4])
def test_a_norm_with_a_computed_scale_counts_as_one_without_statistics(computed):
    args = ["x", *STATE, *SCALE]
    args[computed] = "x"

    assert norm_of(F.batch_norm, args).mean is None
    assert norm_of(F.batch_norm, ("x", *STATE, None, None)).mean is not None


# Tensors, hooks and places.


@pytest.mark.parametrize(
    ("target", "args", "is_turned"),
    [
        (aten.t.default, ("self.matrix",), True),
        (aten.t_copy.default, ("self.matrix",), True),
        (aten.permute.default, ("self.matrix", [1, 0]), True),
        (aten.permute_copy.default, ("self.matrix", (1, 0)), True),
        (aten.permute.default, ("self.matrix", [0, 1]), False),
        (aten.t.default, ("x",), False),
        (aten.neg.default, ("self.matrix",), False),
    ],
)
def test_a_turned_parameter_is_a_tensor_of_the_module(target, args, is_turned):
    node, gm = graph_of("call_function", target, args)
    found = tensor_of(node, gm)

    assert (found is not None) is is_turned
    if is_turned:
        assert torch.equal(found, gm.matrix.t())


def test_a_tensor_is_read_from_the_module_alone():
    node, gm = graph_of("get_attr", "vector")
    number, other = graph_of("get_attr", "number")

    assert tensor_of(node, gm) is gm.vector
    assert tensor_of(number, other) is None
    assert tensor_of(gm.vector, gm) is None
    assert tensor_of(None, gm) is None


def nothing(*_):
    return None


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_hooks_make_a_call_do_more(kind):
    layer = nn.Linear(1, 1)
    assert not has_hooks(layer)

    getattr(layer, f"register_{kind}_hook")(nothing)

    assert has_hooks(layer)


def test_a_forward_of_its_own_makes_a_call_do_more_but_not_the_code_of_a_graph():
    layer = nn.Linear(1, 1)
    layer.forward = nothing
    graph = fxcore.symbolic_trace(nn.Linear(1, 1))
    graph.forward = nothing

    assert has_hooks(layer)
    assert not has_hooks(graph)


def test_calls_are_known_by_the_path_of_the_module_or_by_the_name_of_the_node():
    function, _ = graph_of("call_function", F.linear, CONV[:2])
    module, _ = graph_of("call_module", "fc", ("x",))

    assert (place_of(function), place_of(module)) == ("linear", "fc")
    assert not is_layer_function(module)
    assert not is_layer_function(graph_of("call_function", torch.relu, ("x",))[0])
    assert str(Fused("fc", ("norm", "relu"))) == "fc + norm + relu"


def test_the_uses_of_modules_and_state_are_collected():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    weight, unread = graph.get_attr("conv.weight"), graph.get_attr("fc.bias")
    first = graph.call_module("norm", (x,))
    second = graph.call_module("norm", (first,))
    result = graph.call_function(F.conv2d, (second, weight))
    graph.output(result)
    gm = fxcore.GraphModule(Root(), graph)
    uses = StateUses(gm)

    assert uses.calls == {gm.norm: [first, second]}
    assert uses.readers(gm.norm.weight) == uses.readers(gm.norm.running_mean) == {gm.norm}
    assert uses.readers(gm.conv.weight) == {result}
    assert uses.readers(gm.fc.bias) == uses.readers(None) == set()
    assert [uses.is_read_inside(path) for path in ("conv", "conv.weight", "fc", "norm")] == [True, False, False, False]
    assert not unread.users
