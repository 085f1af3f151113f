"""Nodes of make_fx name the module whose call made them, in a forward and in its backward."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pytest_fxgraph import capture
from pytest_fxgraph.captures.module_paths import _Calls
from pytest_fxgraph.captures.step_trace import Step, traced_step
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.text_writer import document_lines


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.blocks[0].up(x).sin()


def scopes(graph_module, *names):
    nodes = {node.name: node for node in graph_module.graph.nodes}
    return [[*nodes[name].meta.get("nn_module_stack", ())] for name in names]


def test_each_node_has_the_calls_around_it():
    graph_module = capture(Net(), torch.ones(2, 4), frontend="make_fx").as_graph_module()

    assert scopes(graph_module, "addmm", "relu", "addmm_5") == [
        ["blocks.0", "blocks.0.up"],
        ["blocks.0"],
        ["blocks.2", "blocks.2.down"],
    ]
    assert scopes(graph_module, "addmm_6", "sin") == [["blocks.0.up@1"], []]


def test_a_golden_folds_the_blocks():
    graph_module = capture(Net(), torch.ones(2, 4), frontend="make_fx").as_graph_module()
    lines = document_lines(build_document(graph_module, sources=False))
    assert "%blocks_2 = blocks.2(" in "\n".join(lines)
    assert "block blocks.*:" in lines


@pytest.mark.skipif(not hasattr(torch.autograd, "_get_sequence_nr"), reason="this torch does not tell the numbers")
def test_a_backward_has_the_calls_of_its_forward():
    graph_module = traced_step(Net(), (torch.ones(2, 4),), {}, Step(is_training=True), None)

    found = scopes(graph_module, "threshold_backward", "threshold_backward_1", "threshold_backward_2")
    assert found == [["blocks.2"], ["blocks.1"], ["blocks.0"]]
    assert scopes(graph_module, "cos") == [[]]
    (first, *_) = (node for node in graph_module.graph.nodes if str(node.target) == "blocks.1.up.weight")
    assert [*first.meta["nn_module_stack"]] == ["blocks.1", "blocks.1.up"]


def test_modules_are_called_as_before_afterwards():
    before = nn.Module._call_impl, torch.fx.Tracer.create_node, "create_node" in vars(torch.fx.Tracer)
    with pytest.raises(ValueError, match="no such"):
        capture(Refuses(), torch.ones(2, 4), frontend="make_fx")
    assert before == (nn.Module._call_impl, torch.fx.Tracer.create_node, "create_node" in vars(torch.fx.Tracer))


class Refuses(Net):
    def forward(self, x):
        raise ValueError("no such input")


@pytest.mark.parametrize(
    ("number", "path"), [(None, None), (4, None), (5, "a"), (6, "b"), (7, "a"), (8, None), (9, None)]
)
def test_a_number_of_autograd_belongs_to_the_calls_that_had_begun(number, path):
    first, second = nn.ReLU(), nn.ReLU()
    calls = _Calls({id(first): "a", id(second): "b"})
    numbers = iter((5, 6, 7, 8))
    calls._next_number = lambda: next(numbers)
    with calls.entered(first), calls.entered(second):
        pass

    calls._running_backward = lambda: SimpleNamespace(_sequence_nr=lambda: number)
    assert [*calls.of_this_moment()][-1:] == ([] if path is None else [path])
