from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x / 3 * 7


def scaled_in_another_order(x: torch.Tensor) -> torch.Tensor:
    return x * 7 / 3


def half_lost(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float().sum(0)


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 4096).cos().reshape(1024, 4) * 1e3


def test_values_that_differ_count_unless_the_graph_is_as_near_to_double_precision_as_eager():
    graph, exact = fxcore.symbolic_trace(scaled_in_another_order), {"rtol": 0.0, "atol": 0.0}

    with pytest.raises(AssertionError, match="output has other values"):
        FxEquivalence()(scaled, values(), graph=graph, **exact)
    FxEquivalence()(scaled, values(), graph=graph, fp64_reference=True, **exact)


def test_a_graph_that_is_farther_from_double_precision_is_refused_with_both_distances():
    graph = fxcore.symbolic_trace(half_lost)

    with pytest.raises(AssertionError, match=r"off from float64 by .* in the graph, .* in eager"):
        FxEquivalence()(summed, values(), graph=graph, fp64_reference=True)


def test_the_model_stays_in_its_own_precision():
    model = nn.Linear(4, 4)
    graph = fxcore.symbolic_trace(lambda x: x * 2)

    with pytest.raises(AssertionError, match="off from float64"):
        FxEquivalence()(model, torch.ones(2, 4), graph=graph, fp64_reference=True)

    assert model.weight.dtype is torch.float32
