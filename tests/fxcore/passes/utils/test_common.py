from __future__ import annotations

import torch
import torch.fx
from torch import nn
from torch.fx.passes.utils import common as theirs

import fxcore
from fxcore.passes.utils import HolderModule, compare_graphs, lift_subgraph_as_module


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
        self.weight = nn.Parameter(torch.randn(2))
        self.register_buffer("offset", torch.randn(2))

    def forward(self, x):
        return self.deep(x) * self.weight + self.offset


def test_a_holder_holds_modules_under_their_names():
    holder = HolderModule({"left": nn.ReLU(), "right": None})

    assert [name for name, _ in holder.named_children()] == ["left"]
    assert holder.right is None


def test_a_subgraph_becomes_a_module_that_shares_what_it_refers_to():
    model, x = Model(), torch.randn(3, 2)
    gm, their_gm = fxcore.symbolic_trace(model), torch.fx.symbolic_trace(model)

    lifted, paths = lift_subgraph_as_module(gm, gm.graph, "part", "Part")
    _, expected = theirs.lift_subgraph_as_module(their_gm, their_gm.graph, "part", "Part")

    assert paths == expected
    assert paths["deep.0.0"] == "part.deep.0.0"
    assert type(lifted).__name__ == "Part"
    assert lifted.weight is model.weight
    torch.testing.assert_close(lifted(x), model(x))


def test_graphs_are_compared_by_their_nodes_and_wiring():
    def graph_of(function):
        return fxcore.symbolic_trace(function).graph

    first = graph_of(lambda x, y: torch.relu(x) + y)

    assert compare_graphs(first, graph_of(lambda a, b: torch.relu(a) + b))
    assert not compare_graphs(first, graph_of(lambda a, b: torch.neg(a) + b))
    assert not compare_graphs(first, graph_of(lambda a, b: torch.relu(a) + a))


def test_a_part_of_a_graph_is_not_the_graph():
    def graph_of(function):
        return fxcore.symbolic_trace(function).graph

    part = graph_of(lambda x, y: torch.relu(x) + y)

    assert not compare_graphs(part, graph_of(lambda x, y: torch.neg(torch.relu(x) + y)))
    assert not compare_graphs(part, graph_of(lambda x, y: torch.relu(torch.neg(x)) + y))
