"""Inputs that guards and assertions refuse are refused after a pass, or the pass is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

import fxcore
from fixtures.shown_frames import raises_here
from pytest_fxgraph.transform.fixture import FxTransform


def values() -> torch.Tensor:
    return torch.linspace(1, 2, 20).reshape(5, 4)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 3 else x


class Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.sum() > 0, "the sum is positive")
        return x * 2


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


def copied_node_by_node(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Make a new graph, which has no guards."""
    graph, copies = fxcore.Graph(), {}
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return fxcore.GraphModule(gm, graph)


def without_assertions(gm: Any) -> None:
    for node in reversed(gm.graph.nodes):
        if node.op == "call_function" and "assert" in str(node.target):
            gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def test_guards_that_are_lost_are_told_with_a_call():
    subject = fxcore.symbolic_trace(Branching(), example_inputs=(values(),))

    words = r"a call where every input has the size 1 in place of 5 was refused \(.*\), and the graph answers it"
    with raises_here(AssertionError, match=f"copied_node_by_node lost a refusal: {words}"):
        FxTransform()(copied_node_by_node, subject, values())
    FxTransform()(copied_node_by_node, subject, values(), may_change="refusals")


@pytest.mark.parametrize("trace", ["fxcore", "torch"])
def test_assertions_that_are_lost_are_told_with_a_call(trace):
    words = r"a call where every input has the negative values was refused \(the sum is positive\)"
    with raises_here(AssertionError, match=f"without_assertions lost a refusal: {words}"):
        FxTransform()(without_assertions, Positive(), values(), trace=trace)


def program() -> ExportedProgram:
    return export(Layered(), (values(),), dynamic_shapes=({0: Dim("batch", min=3, max=64)},), strict=False)


def test_a_module_without_the_checks_of_its_program_is_told():
    def unchecked(given: ExportedProgram) -> torch.fx.GraphModule:
        module = given.module()
        module._forward_pre_hooks.clear()
        for node in module.graph.find_nodes(op="call_module", target="_guards_fn"):
            module.graph.erase_node(node)
        module.recompile()
        return module

    with raises_here(AssertionError, match="unchecked lost a refusal: a call where every input has the size 1 in"):
        FxTransform()(unchecked, program(), values())


@pytest.mark.parametrize(
    "transform", [ExportedProgram.run_decompositions, lambda given: given.module(), lambda given: given]
)
def test_passes_that_keep_the_checks_are_right(transform):
    FxTransform()(transform, program(), values(), allow_vacuous=True)


def test_errors_of_operators_are_no_refusals():
    """A layer that takes more sizes than the layer before is no lost check."""

    class Guarded(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            torch._assert(x.sum() > 0, "the sum is positive")
            return x @ weight

    def forgiving(gm: fxcore.GraphModule) -> None:
        product = next(node for node in gm.graph.nodes if node.name == "matmul")
        product.target = fxcore_matmul
        gm.recompile()

    FxTransform()(forgiving, Guarded(), (values(), torch.eye(4)))


@fxcore.wrap
def fxcore_matmul(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight if x.shape[-1] == weight.shape[0] else x


def test_a_graph_without_checks_is_called_no_further():
    calls = []

    def counted(gm: fxcore.GraphModule) -> None:
        gm.lin.register_forward_pre_hook(lambda *_: calls.append(1))

    FxTransform()(counted, fxcore.symbolic_trace(Layered()), values())
    assert 0 < len(calls) < 5


@pytest.mark.parametrize(("subject", "is_asked"), [(program, False), (Positive, True)])
def test_other_values_are_tried_only_where_the_graph_asserts_something(subject, is_asked, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "pytest_fxgraph.transform.run_promises._OTHER_VALUES", {"is noted": lambda x: asked.append(x) or x}
    )

    FxTransform()(lambda given: given, subject(), values(), allow_vacuous=True)

    assert bool(asked) is is_asked
