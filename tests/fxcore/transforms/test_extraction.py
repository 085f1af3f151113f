"""A stretch of a graph runs alone, on the inputs that it had in the whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.transforms.extraction import extract_between


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x, scale):
        y = torch.relu(self.first(x))
        factor = torch.exp(scale)
        z = self.second(y) * factor + self.weight
        y.add_(100)
        return z.sum() + y.mean()


@pytest.fixture
def gm():
    torch.manual_seed(0)
    return fxcore.symbolic_trace(Net())


def example():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.ones(4)


def test_the_part_gives_what_it_gave_in_the_whole(gm):
    statistics = gm.second.running_mean.clone()

    part = extract_between(gm, ["relu"], ["add"], example())

    assert part.input_names == ("relu", "exp")
    assert part.inputs[0].max() < 100, "as of when the part began, before the value was written to"
    assert torch.equal(gm.second.running_mean, statistics), "the run changes nothing"
    torch.testing.assert_close(part.graph_module(*part.inputs), part.expected)
    assert [node.name for node in part.graph_module.graph.nodes] == [
        *("relu", "exp", "weight", "second", "mul", "add", "output")
    ]
    assert part.graph_module.second is gm.second


def test_several_ends_come_as_a_tuple_and_nodes_can_be_given(gm):
    nodes = {node.name: node for node in gm.graph.nodes}
    gm.eval()

    part = extract_between(gm, [nodes["x"]], ["relu", nodes["mul"]], example())

    assert part.input_names == ("x", "exp")
    assert isinstance(part.expected, tuple)
    torch.testing.assert_close(part.graph_module(*part.inputs), part.expected)


@pytest.mark.parametrize(
    ("starts", "ends", "words"),
    [
        (["relu"], ["exp"], "'exp' does not depend on relu; give nodes that it is computed from"),
        (["nothing"], ["exp"], "the graph has no node 'nothing'; it has x, scale, first, relu"),
        ([], ["exp"], "the graph has no node of no name"),
    ],
)
def test_what_cannot_be_extracted_is_told(gm, starts, ends, words):
    with pytest.raises(PassArgumentError, match=words):
        extract_between(gm, starts, ends, example())


def test_a_value_inside_that_is_also_a_start_is_an_input_and_none_is_made_twice(gm):
    gm.eval()

    part = extract_between(gm, ["x", "relu"], ["mul"], example())

    assert part.input_names == ("relu", "exp")
    torch.testing.assert_close(part.graph_module(*part.inputs), part.expected)


def test_an_input_that_is_written_before_the_part_begins_is_as_of_the_beginning():
    def function(x):
        y = torch.relu(x)
        z = torch.exp(x)
        y.add_(1)
        return (y * z).sum()

    x = torch.ones(3)

    part = extract_between(fxcore.symbolic_trace(function), ["relu", "exp"], ["sum_1"], x)

    assert part.input_names == ("relu", "exp")
    assert torch.equal(part.inputs[0], torch.full((3,), 2.0))
    assert torch.equal(part.graph_module(*part.inputs), function(x))
    assert part.graph_module.training


def test_an_input_that_the_part_writes_to_first_is_as_of_the_beginning():
    def function(x):
        y = torch.relu(x)
        y.add_(1)
        return y.sum()

    part = extract_between(fxcore.symbolic_trace(function), ["relu"], ["add_"], torch.ones(3))

    assert torch.equal(part.inputs[0], torch.ones(3))
    assert torch.equal(part.expected, torch.full((3,), 2.0))
