"""The numbers of a table's row."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
from pytest_fxgraph.gate.table_numbers import costs_of


def test_the_parameters_of_one_graph_are_the_parameters_that_it_reads():
    traced = fxcore.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
    (second,) = traced.graph.find_nodes(op="call_module", target="1")
    second.replace_all_uses_with(second.args[0])
    traced.graph.erase_node(second)
    traced.recompile()

    assert costs_of(traced, (torch.ones(1, 3),), None, is_asked=True)["params"] == 8
    assert sum(each.numel() for each in traced.parameters()) == 14
