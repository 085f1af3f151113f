"""Graphs are split into consecutive parts that together do the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore import interop
from fxcore.errors import PassArgumentError
from fxcore.transforms.splitting import split_by, split_by_size
from pytest_fxgraph import check_transform


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = torch.relu(layer(y)).add_(1)
        return y + self.layers[0](x)


def sizes(gm):
    return [
        len([node for node in getattr(gm, str(call.target)).graph.nodes if node.op.startswith("call_")])
        for call in gm.graph.find_nodes(op="call_module")
    ]


def is_layer(node):
    return node.op == "call_module"


def test_a_part_begins_where_the_answer_changes():
    model, x = Net(), torch.randn(2, 4)

    result = check_transform(lambda gm: split_by(gm, is_layer), model, (x,), idempotent=False)

    assert sizes(result.after) == [1, 2, 1, 2, 1, 2, 1, 2, 1, 1]


class TakesPairs(nn.Module):
    def forward(self, pair, *, scale):
        return {"sum": (pair[0] + pair[1]).relu() * scale}


def test_parts_of_an_exported_program_take_and_give_what_the_program_does():
    pair, scale = (torch.randn(2), torch.randn(2)), torch.tensor(3.0)
    program = torch.export.export(TakesPairs(), (pair,), {"scale": scale})

    made = split_by_size(interop.from_torch(program.module()), nodes=2)

    assert made(pair, scale=scale)["sum"].equal(TakesPairs()(pair, scale=scale)["sum"])


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"nodes": 5}, [5, 5, 4]),
        ({"nodes": 100}, [14]),
        ({"nodes": 1}, [1] * 14),
        ({"parameters": 40}, [6, 8]),
        ({"parameters": 1}, [3, 3, 3, 5]),
    ],
    ids=str,
)
def test_a_part_has_at_most_the_size_that_is_given(limit, expected):
    model, x = Net(), torch.randn(2, 4)

    result = check_transform(lambda gm: split_by_size(gm, **limit), model, (x,), idempotent=False)

    assert sizes(result.after) == expected


@pytest.mark.parametrize("limit", [{}, {"nodes": 0}, {"nodes": 1, "parameters": 1}], ids=str)
def test_other_limits_are_refused_in_words(limit):
    with pytest.raises(PassArgumentError, match="give one limit of at least 1: nodes= for calls, or parameters="):
        split_by_size(fxcore.symbolic_trace(Net()), **limit)


def test_parameters_that_calls_read_by_themselves_count_once():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return ((x * self.weight).relu() + self.weight) * self.other

    made = split_by_size(fxcore.symbolic_trace(Reads()), parameters=4)

    assert sizes(made) == [3, 1]


def test_parts_are_numbered_from_zero_and_answers_are_asked_in_order():
    gm = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(torch.exp(x))))
    asked = []

    made = split_by(gm, lambda node: asked.append(node.name) or node.name == "relu")

    assert asked == ["exp", "relu", "neg"]
    assert [node.target for node in made.graph.find_nodes(op="call_module")] == ["submod_0", "submod_1", "submod_2"]


def test_the_first_answer_may_be_none():
    gm = fxcore.symbolic_trace(lambda x: torch.neg(torch.relu(x)))

    assert sizes(split_by(gm, lambda node: None)) == [2]


@pytest.mark.parametrize(
    ("parameters", "expected"), [(19, [1, 1, 1]), (20, [1, 1, 1]), (39, [1, 1, 1]), (40, [2, 1]), (60, [3])]
)
def test_a_part_is_full_at_its_limit_of_parameters(parameters, expected):
    gm = fxcore.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)))

    assert sizes(split_by_size(gm, parameters=parameters)) == expected
