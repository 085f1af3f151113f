"""The first operator at which eager and graph part is named, with its module, line and inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.functions import assert_equivalent


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.block = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block(self.first(x))
        return y.softmax(dim=1) + 1


def message_after(change: Any, model: nn.Module | None = None) -> str:
    model = model or Outer().eval()
    graph = fxcore.symbolic_trace(model)
    change(graph)
    graph.recompile()
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(model, graph, torch.linspace(-1, 1, 12).reshape(3, 4))
    return str(caught.value)


def node_calling(graph: fxcore.GraphModule, target: Any) -> fxcore.Node:
    return next(node for node in graph.graph.nodes if node.target == target)


def test_a_changed_argument_is_found_at_its_node():
    def change(graph: fxcore.GraphModule) -> None:
        node_calling(graph, "softmax").kwargs = {"dim": 0}

    message = message_after(change)

    assert "first parted at node softmax (softmax), test_bisection.py:" in message
    assert "return y.softmax(dim=1) + 1" in message
    assert "its inputs agree exactly, so the error began there; its inputs in eager: float32[3, 4] in" in message


def test_the_module_and_line_that_made_the_node_are_named():
    def change(graph: fxcore.GraphModule) -> None:
        import operator

        node_calling(graph, operator.mul).args = (node_calling(graph, operator.mul).args[0], 3)

    message = message_after(change)

    assert "first parted at node mul (mul) in module block, test_bisection.py:" in message
    assert "return torch.tanh(x) * 2" in message


def test_an_operator_put_in_the_place_of_others_is_named_with_them():
    def change(graph: fxcore.GraphModule) -> None:
        node_calling(graph, torch.tanh).target = torch.sigmoid

    message = message_after(change)

    assert "first parted where eager ran tanh and the graph ran tanh (sigmoid) in module block" in message
    assert "seen first in node mul (mul)" in message


def test_a_side_effect_that_comes_to_light_late_is_named_with_the_operator_that_lacks_it():
    def change(graph: fxcore.GraphModule) -> None:
        graph.graph.erase_node(node_calling(graph, "add_"))

    class Late(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.exp(x)
            x.add_(1)
            z = torch.sin(y)
            return z * x

    message = message_after(change, Late())

    assert "first parted at node mul (mul), test_bisection.py:" in message
    assert "earlier, eager ran add (test_bisection.py:" in message
    assert "x.add_(1)) and the graph ran nothing" in message


def test_a_missing_operator_at_the_end_is_named():
    def change(graph: fxcore.GraphModule) -> None:
        output = next(node for node in graph.graph.nodes if node.op == "output")
        output.args = (output.args[0].args[0],)
        graph.graph.eliminate_dead_code()

    assert "first parted where eager ran add and the graph ran nothing" in message_after(change)


def test_a_parameter_of_other_values_is_found_in_the_module_that_reads_it():
    def change(graph: fxcore.GraphModule) -> None:
        other = nn.Linear(4, 4)
        graph.first = other

    message = message_after(change)

    assert "first parted at node first (linear) in module first" in message
    assert "its inputs differ already by up to" in message
