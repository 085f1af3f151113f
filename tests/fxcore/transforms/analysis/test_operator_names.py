"""One name for an operator in all its spellings."""

from __future__ import annotations

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.transforms.analysis.operator_names import formula_name, formula_name_of_target, is_in_place


def own(x):
    return x


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.relu, "relu"),
        (F.relu, "relu"),
        ("relu", "relu"),
        ("relu_", "relu"),
        (nn.ReLU, "relu"),
        (torch.ops.aten.relu, "relu"),
        (torch.ops.aten.relu.default, "relu"),
        (torch.ops.aten.relu_.default, "relu"),
        (torch.ops.prims.cos.default, "cos"),
        (torch.Tensor.cos, "cos"),
        (nn.Conv2d, formula_name_of_target(F.conv2d)),
        (math.floor, "floor"),
        (abs, "abs"),
        ("__abs__", "abs"),
        (operator.add, "add"),
        (operator.iadd, "add"),
        ("__iadd__", "add"),
        ("__add__", "add"),
        (operator.invert, formula_name_of_target("__invert__")),
        (operator.index, "index"),
        (operator.truediv, formula_name_of_target(torch.div)),
        (operator.itruediv, formula_name_of_target(torch.div)),
        (own, f"{own.__module__}.own"),
        (torch.ops.quantized.add.default, "quantized.add"),
        (torch.ops.quantized.add, "quantized.add"),
    ],
)
def test_an_operator_has_one_name_however_it_is_written(target, name):
    assert formula_name_of_target(target) == name


def test_a_class_of_a_user_has_its_qualified_name():
    class ReLU(nn.Module):
        pass

    assert formula_name_of_target(ReLU) == f"{__name__}.{ReLU.__qualname__}"


def test_a_node_has_the_name_of_its_call():
    graph = fxcore.Graph()
    x = graph.placeholder("x")

    assert formula_name(graph.call_method("relu_", (x,))) == "relu"
    assert formula_name(graph.call_module("layer", (x,)), nn.ReLU()) == "relu"
    assert formula_name(graph.call_function(F.relu, (x,))) == "relu"
    assert formula_name(x) == "placeholder"


@pytest.mark.parametrize(
    ("call", "is_written"),
    [
        (lambda graph, x: graph.call_method("add_", (x, 1)), True),
        (lambda graph, x: graph.call_method("add", (x, 1)), False),
        (lambda graph, x: graph.call_function(operator.iadd, (x, 1)), True),
        (lambda graph, x: graph.call_function(F.relu, (x,), {"inplace": True}), True),
        (lambda graph, x: graph.call_function(F.relu, (x,)), False),
        (lambda graph, x: graph.call_function(torch.add, (1, 1), {"out": x}), False),
        (lambda graph, x: graph.call_function(torch.add, (), {"input": 1, "other": 1, "out": x}), False),
        (lambda graph, x: graph.call_function(torch.add, (x, 1), {"out": x}), True),
    ],
)
def test_a_call_is_in_place_if_it_writes_its_first_argument(call, is_written):
    graph = fxcore.Graph()

    assert is_in_place(call(graph, graph.placeholder("x")), None) is is_written


def test_a_module_is_in_place_by_its_setting():
    graph = fxcore.Graph()
    node = graph.call_module("layer", (graph.placeholder("x"),))

    assert is_in_place(node, nn.ReLU(inplace=True))
    assert not is_in_place(node, nn.ReLU())
