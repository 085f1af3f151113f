"""What a trace with an example took for granted stands in the document."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
from pytest_fxgraph.document.builder import build_document


class Repeated(nn.Module):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def test_a_guard_is_a_note_with_module_function_and_source():
    graph_module = fxcore.symbolic_trace(nn.Sequential(Repeated()), example_inputs=torch.rand(2, 3))

    assert build_document(graph_module).notes == (
        "guard: input.shape[0] == 2 (in module 0, function forward, for _ in range(x.shape[0]):)",
    )


def test_a_leaf_for_want_of_a_trace_is_a_note_with_the_reason():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.ReLU(), Gate()), leaf_modules="auto")

    assert build_document(graph_module).notes == (
        "leaf: 1: cannot be traced: The value 'gt' (call_function of sum_1) was asked for its truth: "
        "return x * 2 if x.sum() > 0 else x",
    )


def test_a_graph_that_takes_nothing_for_granted_has_no_notes():
    graph_module = fxcore.symbolic_trace(nn.Linear(3, 3), example_inputs=torch.rand(2, 3))

    assert build_document(graph_module).notes == ()


def test_the_output_of_a_layer_is_named_by_the_layer_and_not_by_the_node():
    graph_module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 3), Repeated()), example_inputs=torch.rand(2, 3))

    (note,) = build_document(graph_module).notes

    assert note.startswith("guard: self.0(...).shape[0] == 2 (in module 1, function forward")


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(3))
        self.table = torch.zeros(3)

    def forward(self, x):
        self.seen.add_(1)
        self.mean = self.mean * 0.9 + x.mean(0)
        self.table += 1
        return x * 2


def test_state_that_a_trace_without_an_example_writes_is_a_note():
    graph_module = fxcore.symbolic_trace(Counting())

    assert build_document(graph_module).notes == (
        "note: forward writes self.table while it is traced, and the graph does not",
        "note: forward writes self.seen while it is traced, and the graph does not",
        "note: forward writes self.mean while it is traced, and the graph does not",
    )


def test_the_note_of_a_trace_without_an_example_changes_no_printed_form():
    printed = fxcore.symbolic_trace(Counting()).print_readable(print_output=False)

    assert "note" not in printed
    assert fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 3))).graph.guards == ()
