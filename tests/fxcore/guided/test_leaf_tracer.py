"""Modules that become one node each: those that the user names, and those that cannot be traced."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import LeafError
from fxcore.guided.leaf_tracer import LeafTracer


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.block = nn.Sequential(nn.Linear(3, 3), Gate())

    def forward(self, x):
        return self.block(self.layer(x)) + 1


@pytest.mark.parametrize("options", [{}, {"example_inputs": torch.rand(2, 3)}], ids=["plain", "example"])
def test_the_smallest_module_that_cannot_be_traced_is_a_leaf_with_the_reason(options):
    model = Net()

    graph_module = fxcore.symbolic_trace(model, leaf_modules="auto", **options)

    targets = [node.target for node in graph_module.graph.nodes if node.op == "call_module"]
    assert targets == ["layer", "block.0", "block.1"]
    reasons = {node.target: node.meta.get("leaf_reason") for node in graph_module.graph.nodes}
    assert reasons["block.0"] is None
    assert reasons["block.1"].startswith("cannot be traced: The value 'gt'")
    x = torch.rand(2, 3)
    assert torch.equal(graph_module(x), model(x))


def test_nothing_is_left_of_the_attempt():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            y = x * self.scale
            return y if (y + 1).sum() > 0 else -y

    graph_module = fxcore.symbolic_trace(nn.Sequential(Late(), nn.ReLU()), leaf_modules="auto")

    graph_module.graph.lint()
    assert [node.op for node in graph_module.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


@pytest.mark.parametrize("root", [Gate(), Gate().forward], ids=["module", "function"])
def test_a_model_whose_own_forward_cannot_be_traced_is_one_call(root):
    graph_module = fxcore.symbolic_trace(root, leaf_modules="auto", example_inputs=torch.ones(3))

    assert len(graph_module.graph.nodes) == 3
    assert torch.equal(graph_module(torch.ones(2)), 2 * torch.ones(2))
    assert torch.equal(graph_module(-torch.ones(2)), -torch.ones(2))


def test_what_is_neither_class_nor_path_is_refused():
    with pytest.raises(LeafError, match="expected classes and paths of modules, or 'auto', got 3"):
        LeafTracer((3,))


def test_a_path_without_module_is_refused_with_the_nearest_ones():
    with pytest.raises(LeafError, match=r"Net has no module at 'block.2'; it has 'block.1', 'block.0', 'block'"):
        fxcore.symbolic_trace(Net(), leaf_modules="block.2")


def test_the_call_of_the_whole_model_and_no_other_node_has_the_reason():
    class OfModels(Gate):
        def forward(self, model):  # an input with the name of the leaf
            return super().forward(model)

    graph_module = fxcore.symbolic_trace(OfModels(), leaf_modules="auto", example_inputs=torch.ones(3))

    reasons = [node.meta.get("leaf_reason", "") for node in graph_module.graph.nodes]
    assert [bool(reason) for reason in reasons] == [False, True, False]
    assert reasons[1].startswith("cannot be traced: ")


def test_a_module_may_be_named_by_each_of_its_paths():
    model = nn.Sequential(layer := nn.Sequential(nn.ReLU()), layer)

    for path in "01":
        graph = fxcore.symbolic_trace(model, leaf_modules=[path]).graph
        assert [node.target for node in graph.nodes if node.op == "call_module"] == ["0", "0"]


def test_the_error_of_a_model_that_fails_on_its_example_is_raised_as_it_is():
    class Raises(nn.Module):
        def forward(self, x):
            raise RuntimeError("the model's own error")

    with pytest.raises(RuntimeError, match=r"^the model's own error"):
        fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), Raises()), example_inputs=torch.ones(2), leaf_modules="auto")


class RefusesProxies(nn.Module):
    def __init__(self, message):
        super().__init__()
        self.message = message

    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise ValueError(self.message)
        return x


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("one line", "one line"),
        ("first line\nsecond line", "first line"),
        ("symbolically traced variables", "symbolically traced variables"),
        ("symbolically traced variables cannot be used\nThe value 'gt'", "The value 'gt'"),
        ("", "ValueError"),
        ("failed at model.py:12", "failed"),
        ("failed at model.py:12: return x", "failed"),
    ],
)
def test_the_reason_of_a_leaf_is_one_line_without_its_file(message, said):
    graph = fxcore.symbolic_trace(nn.Sequential(RefusesProxies(message), nn.ReLU()), leaf_modules="auto").graph

    (reason,) = (node.meta["leaf_reason"] for node in graph.nodes if "leaf_reason" in node.meta)
    assert reason == f"cannot be traced: {said}: raise ValueError(self.message)"


@pytest.mark.parametrize("is_training", [True, False])
def test_a_model_that_is_one_call_keeps_its_mode(is_training):
    assert fxcore.symbolic_trace(Gate().train(is_training), leaf_modules="auto").training is is_training
    assert fxcore.symbolic_trace(lambda x: x * 2 if x.sum() > 0 else x, leaf_modules="auto").training
