from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.passes.graph_manipulation as theirs
from torch import nn

import fxcore
from fxcore.passes.graph_manipulation import (
    get_size_of_all_nodes,
    get_size_of_node,
    get_tensor_meta,
    replace_target_nodes_with,
    size_bytes,
)
from fxcore.passes.shape_prop import ShapeProp


def model():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


def test_sizes_are_those_of_torch():
    ours, expected = fxcore.symbolic_trace(model()), torch.fx.symbolic_trace(model())

    get_size_of_all_nodes(ours, [torch.randn(2, 3, 8, 8)])
    theirs.get_size_of_all_nodes(expected, [torch.randn(2, 3, 8, 8)])

    sizes = [node.size_bytes for node in ours.graph.nodes if node.op != "output"]
    assert sizes == [node.size_bytes for node in expected.graph.nodes if node.op != "output"]
    assert sizes[1] == size_bytes(2 * 4 * 6 * 6 * 4, (2 * 4 * 6 * 6 + 4 * 3 * 9 + 4) * 4)


def test_a_value_of_several_tensors_is_as_large_as_all_of_them():
    gm = fxcore.symbolic_trace(lambda x: torch.max(x, 0))
    ShapeProp(gm).propagate(torch.randn(2, 3))
    node = next(node for node in gm.graph.nodes if node.op == "call_function")

    assert get_size_of_node(gm, node) == size_bytes(3 * 4 + 3 * 8, 3 * 4 + 3 * 8)


def test_a_node_without_metadata_is_an_error_that_says_how_to_get_it():
    gm = fxcore.symbolic_trace(nn.ReLU())

    with pytest.raises(RuntimeError, match=r"Node input_1 has no tensor metadata.*shape propagation has run"):
        get_tensor_meta(next(iter(gm.graph.nodes)))


def test_targets_are_replaced_as_in_torch():
    def function(x):
        return torch.relu(x) + torch.neg(torch.relu(x))

    ours, expected = fxcore.symbolic_trace(function), torch.fx.symbolic_trace(function)

    replace_target_nodes_with(ours, "call_function", torch.relu, "call_method", "sigmoid")
    theirs.replace_target_nodes_with(expected, "call_function", torch.relu, "call_method", "sigmoid")

    assert str(ours.graph) == str(expected.graph)
    assert ours.code == expected.code
