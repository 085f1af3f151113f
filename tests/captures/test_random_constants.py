from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.errors import CaptureError


class DrawsConstant(nn.Module):
    def forward(self, x):
        x = x.relu()
        return x + torch.randn(3)


class DrawsNumber(nn.Module):
    def forward(self, x):
        return x * random.random()


class DrawsBranch(nn.Module):
    def forward(self, x):
        if random.random() < 0.5:
            x = x.relu()
        return x.neg()


class DrawsForNothing(nn.Module):
    def forward(self, x):
        torch.randn(3)
        return x + 1


class DrawsInGraph(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x) + torch.rand(x.shape)


class FillsConstant(nn.Module):
    def forward(self, x):
        return x + torch.empty(2, 3).uniform_()


@pytest.mark.parametrize(
    ("model", "line", "node"),
    [
        (DrawsConstant, "return x + torch.randn(3)", "_tensor_constant0"),
        (FillsConstant, "return x + torch.empty(2, 3).uniform_()", "_tensor_constant0"),
        (DrawsNumber, "return x * random.random()", "mul"),
    ],
)
def test_a_number_drawn_while_tracing_is_refused_with_its_line(model, line, node):
    with pytest.raises(CaptureError) as refused:
        trace(model())

    first, place, last = str(refused.value).split("\n")
    assert first.startswith(f"cannot trace {model.__name__}: it draws random numbers while it is traced")
    assert "test_random_constants.py:" in place
    assert place.endswith(f": {line}")
    assert f"Node {node!r} is the first that differs" in last
    assert "torch.rand_like(x)" in last


def test_a_branch_taken_by_chance_is_refused():
    random.seed(3)

    with pytest.raises(CaptureError, match="its graph differs in every run"):
        trace(DrawsBranch())


def test_a_draw_of_numpy_is_refused():
    numpy = pytest.importorskip("numpy")

    def forward(x):
        return x * float(numpy.random.rand())

    with pytest.raises(CaptureError, match=r"return x \* float\(numpy.random.rand\(\)\)"):
        trace(forward)


def test_a_draw_that_leaves_nothing_in_the_graph_is_no_harm_and_moves_the_generator_once():
    torch.manual_seed(0)
    traced = trace(DrawsForNothing())
    after_tracing = torch.random.get_rng_state()
    torch.manual_seed(0)
    torch.randn(3)

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]
    assert torch.equal(after_tracing, torch.random.get_rng_state())


OFFSET = torch.ones(3)


class DrawsForNothingBesideConstant(nn.Module):
    def forward(self, x):
        torch.randn(3)
        return x + OFFSET


def test_a_draw_for_nothing_is_no_harm_beside_a_constant_that_stays():
    traced = trace(DrawsForNothingBesideConstant())

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]


def test_draws_that_the_graph_makes_are_traced_and_leave_the_generators_as_they_were():
    before = torch.random.get_rng_state(), random.getstate()

    traced = trace(DrawsInGraph())

    assert sum(node.target in (torch.rand_like, torch.rand) for node in traced.graph.nodes) == 2
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == random.getstate()


def test_a_refused_model_is_left_without_constants():
    model = DrawsConstant()

    with pytest.raises(CaptureError):
        trace(model)

    assert [name for name in vars(model) if "constant" in name] == []
