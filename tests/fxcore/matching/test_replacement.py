from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore


def test_captured_literals_are_python_values_in_the_replacement():
    def program(x):
        return F.leaky_relu(F.leaky_relu(F.leaky_relu(x, 0.5), 0.25), 0.5)

    def replacement(x, slope):
        traced_with.append(slope)
        return x if slope < 0.3 else torch.mul(x, 2 * slope)

    traced_with: list[float] = []
    traced = fxcore.symbolic_trace(program)

    matches = fxcore.replace_pattern(
        traced, lambda x, slope: F.leaky_relu(x, slope), replacement, capture_literals=True
    )

    assert len(matches) == 3
    assert traced_with == [0.5, 0.25]
    assert [node.args[1] for node in traced.graph.nodes if node.op == "call_function"] == [1.0, 1.0]


def test_without_capturing_literals_are_values_of_the_graph_as_in_torch():
    traced = fxcore.symbolic_trace(lambda x: F.leaky_relu(x, 0.5))

    fxcore.replace_pattern(traced, lambda x, slope: F.leaky_relu(x, slope), lambda x, slope: x * (1 - slope))

    assert "1 - 0.5" in traced.code


def test_parameters_that_stood_for_values_stay_parameters():
    def program(x, n):
        return torch.add(x, n, alpha=3)

    traced = fxcore.symbolic_trace(program)

    fxcore.replace_pattern(
        traced,
        lambda x, n, alpha: torch.add(x, n, alpha=alpha),
        lambda x, n, alpha: sum([n] * alpha, start=x),
        capture_literals=True,
    )

    assert traced(torch.tensor(1.0), 2.0) == 7.0
    assert len(traced.graph.find_nodes(op="placeholder")) == 2


@pytest.mark.parametrize("replacement", [nn.Identity(), fxcore.Graph()])
def test_only_functions_can_take_captured_literals(replacement):
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    with pytest.raises(AssertionError, match="capture_literals=True needs a function as the replacement, got a"):
        fxcore.replace_pattern(traced, lambda x: torch.relu(x), replacement, capture_literals=True)
