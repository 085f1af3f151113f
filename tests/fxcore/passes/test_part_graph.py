from __future__ import annotations

import torch
from torch import nn

import fxcore
from fxcore.passes.part_graph import PartGraph, ReadingPart


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x, y=2):
        return torch.relu(x * self.scale) + y


def copied(part):
    gm = fxcore.symbolic_trace(Scaled())
    nodes = {node.name: node for node in gm.graph.nodes}
    part.copy(nodes["mul"])
    part.copy(nodes["relu"])
    return part, nodes


def test_values_from_outside_become_inputs_once_and_in_order():
    part, nodes = copied(PartGraph())

    assert part.inputs_from_outside == [nodes["x"], nodes["scale"]]
    assert part.value_of(nodes["x"]) is part.environment[nodes["x"]]
    assert not part.finish([nodes["relu"]])
    part.graph.lint()
    assert [node.op for node in part.graph.nodes] == ["placeholder", "placeholder", *["call_function"] * 2, "output"]


def test_a_reading_part_reads_attributes_itself():
    part, nodes = copied(ReadingPart())

    assert part.inputs_from_outside == [nodes["x"]]
    assert part.finish([nodes["mul"], nodes["relu"]])
    assert part.graph.output_node().args[0] == (part.environment[nodes["mul"]], part.environment[nodes["relu"]])


def test_a_graph_calls_a_part_and_knows_its_results():
    outer = PartGraph()
    _, nodes = copied(PartGraph())
    outer.add_input(nodes["x"], "x")

    outer.call_part("part", [nodes["x"], nodes["scale"]], [nodes["mul"], nodes["relu"]], is_tuple=True)
    outer.call_part("next", [nodes["relu"]], [nodes["add"]], is_tuple=False)

    assert [node.name for node in outer.graph.nodes] == ["x", "scale", "part", "getitem", "getitem_1", "next_1"]
    assert outer.environment[nodes["add"]].args == (outer.environment[nodes["relu"]],)
