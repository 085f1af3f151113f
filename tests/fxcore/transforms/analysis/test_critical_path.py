"""The longest chain of nodes that wait for each other."""

from __future__ import annotations

import pytest
import torch

import fxcore
from fxcore.transforms.analysis.critical_path import critical_path


def test_the_critical_path_is_the_longest_chain():
    def forward(x):
        left = torch.relu(torch.relu(x))
        right = torch.sigmoid(x)
        return left + right

    graph = fxcore.symbolic_trace(forward).graph

    by_count = critical_path(graph)
    by_time = critical_path(graph, {"relu": 1, "relu_1": 1, "sigmoid": 5, "add": 1})

    assert [node.name for node in by_count.nodes] == ["relu", "relu_1", "add"]
    assert by_count.parallelism == pytest.approx(4 / 3)
    assert [node.name for node in by_time.nodes] == ["sigmoid", "add"]
    assert (by_time.weight, by_time.total) == (6, 8)


def test_a_graph_without_calls_has_an_empty_path():
    path = critical_path(fxcore.symbolic_trace(lambda x: x).graph)

    assert (path.nodes, path.weight, path.parallelism) == ((), 0, 1)
