"""What a graph consists of, and how two graphs differ in that."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
from fxcore.transforms.analysis.costs import graph_costs
from fxcore.transforms.analysis.statistics import graph_statistics, statistics_difference


def statistics_of(*layers):
    return graph_statistics(graph_costs(fxcore.symbolic_trace(nn.Sequential(*layers)), torch.ones(2, 4)))


def test_operators_and_parameters_are_counted():
    found = statistics_of(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2).double().float())

    assert found.operators == {"linear": 3, "relu": 2}
    assert found.parameters == {"float32": 50}
    assert found.parameter_bytes == 200
    assert found.table().splitlines()[1].split() == ["linear", "160", "296", "80", "0.43", "50", "3"]


def test_parameters_that_the_graph_reads_itself_count_and_shared_ones_once():
    layer = nn.Linear(4, 4)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = layer, nn.Parameter(torch.ones(4, dtype=torch.float64))

        def forward(self, x):
            return self.layer(self.layer(x)) * self.scale

    found = graph_statistics(graph_costs(fxcore.symbolic_trace(Net()), torch.ones(2, 4)))

    assert found.parameters == {"float32": 20, "float64": 4}
    assert found.total.params == 24


def test_what_differs_between_two_graphs_is_told_a_line_each():
    before, after = statistics_of(nn.Linear(4, 4), nn.ReLU()), statistics_of(nn.Linear(4, 4), nn.GELU(), nn.GELU())

    lines = [line.split() for line in statistics_difference(before, after).splitlines()]

    assert lines[0] == ["expected", "obtained", "change"]
    assert ["gelu:", "calls", "0", "2", "+2"] in lines
    assert ["relu:", "FLOPs", "8", "0", "-8"] in lines
    assert ["total", "FLOPs", "72", "80", "+8"] in lines
    assert not any(line[0] == "linear:" for line in lines)


def test_equal_graphs_differ_in_nothing():
    assert statistics_difference(statistics_of(nn.ReLU()), statistics_of(nn.ReLU())) == ""
