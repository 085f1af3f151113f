"""Activations are exchanged in every spelling; dtypes and devices that a trace wrote down move along."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.errors import PassArgumentError
from fxcore.passes.exchange import ExchangeActivations, MoveTo


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        y = self.act(self.lin(x))
        return self.act(y - 1) + torch.relu(y - 2) + F.relu(y - 3, inplace=True) + (y - 4).relu() + y.tanh()


def test_an_activation_is_exchanged_however_it_is_spelled():
    model, x = Net(), torch.randn(3, 4)
    gm = fxcore.symbolic_trace(model)

    made = ExchangeActivations({nn.ReLU: nn.GELU})(gm).graph_module

    y = F.gelu(model.lin(x))
    torch.testing.assert_close(made(x), sum(F.gelu(y - shift) for shift in (1, 2, 3, 4)) + y.tanh())
    assert sum(type(module) is nn.GELU for module in made.modules()) == 4, "the shared one stays shared"
    assert type(gm.act) is nn.ReLU


def test_one_that_works_in_place_on_a_value_with_other_readers_stays():
    def function(x):
        y = x + 1
        return y.relu_() + y

    gm = fxcore.symbolic_trace(function)

    assert ExchangeActivations({nn.ReLU: nn.GELU})(gm).graph_module is gm


class Precise(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        mask = torch.ones(4, dtype=torch.float32, device=torch.device("cpu"))
        y = self.lin(x.float()).to(torch.float32) * mask + torch.zeros_like(x, dtype=torch.float32, device="cpu")
        return y.softmax(-1, dtype=torch.float32).cpu()


def test_dtypes_and_devices_in_the_graph_move_with_the_state():
    gm = fxcore.symbolic_trace(Precise())
    x = torch.randn(2, 4)

    moved = MoveTo(torch.float64)(gm).graph_module
    kept = MoveTo(torch.float64, keep=lambda node: node.target == "softmax")(gm).graph_module

    assert moved(x).dtype is torch.float64
    assert kept(x).dtype is torch.float32
    torch.testing.assert_close(moved(x).float(), gm(x))
    assert gm.lin.weight.dtype is torch.float32


def test_a_graph_moves_to_a_device_whole():
    gm = fxcore.symbolic_trace(Precise())

    moved = MoveTo(device="meta")(gm).graph_module

    assert moved(torch.randn(2, 4, device="meta")).device.type == "meta"


def test_integers_are_refused_in_words():
    with pytest.raises(PassArgumentError, match=r"moved to torch.int8; give a floating dtype, or quantize"):
        MoveTo(torch.int8)(fxcore.symbolic_trace(Net()))
