"""A change of state that one run alone makes is a mismatch, also where all values stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent


def kept(weight: torch.Tensor) -> torch.Tensor:
    return weight


def frozen(weight: torch.Tensor) -> torch.Tensor:
    return weight.requires_grad_(False)


class Scaled(nn.Module):
    def __init__(self, prepare) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.prepare = prepare

    def forward(self, x):
        return x * self.prepare(self.weight)


def graph_of(model: nn.Module, prepare) -> fxcore.GraphModule:
    graph = fxcore.Graph()
    x, weight = graph.placeholder("x"), graph.get_attr("weight")
    graph.output(graph.call_function(torch.mul, (x, graph.call_function(prepare, (weight,)))))
    return fxcore.GraphModule(model, graph)


@pytest.mark.parametrize(
    ("in_eager", "in_graph", "words"),
    [
        (frozen, kept, "after eager's call, not after the graph's"),
        (kept, frozen, "after the graph's call, not after eager's"),
    ],
)
def test_a_flag_that_one_run_alone_sets_is_a_mismatch(in_eager, in_graph, words):
    model = Scaled(in_eager)

    with pytest.raises(MismatchError, match=f"parameter weight has requires_grad=False now, {words}"):
        assert_equivalent(model, graph_of(model, in_graph), torch.ones(2), grads=False)
    assert model.weight.requires_grad


def test_a_flag_that_both_runs_set_is_no_mismatch():
    model = Scaled(frozen)

    assert_equivalent(model, graph_of(model, frozen), torch.ones(2), grads=False)

    assert model.weight.requires_grad
