"""All places that stand in the way of a trace, in one run."""

from __future__ import annotations

import torch
from torch import nn

import fxcore


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Mean(nn.Module):
    def forward(self, x):
        return x + float(x.mean().item())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Sequential(Gate(), Gate())
        self.mean = Mean()

    def forward(self, x):
        if x.shape[0] == 2:
            x = x + 1
        return self.mean(self.gates(x))


def test_every_place_is_found_the_most_frequent_first():
    found = fxcore.diagnose(Net(), torch.rand(2, 3))

    assert [(each.source, each.count) for each in found.obstacles] == [
        ("return x * 2 if x.sum() > 0 else x", 2),
        ("return x + float(x.mean().item())", 1),
    ]
    assert not found.is_traceable
    first = found.obstacles[0]
    assert first.file == __file__
    assert first.module_path == "gates.0"
    assert "assume={'test_diagnosis.py:" in first.cure
    assert "leaf_modules=('gates.0',)" in first.cure


def test_the_text_says_what_an_example_gets_past():
    text = str(fxcore.diagnose(Net(), torch.rand(2, 3)))

    assert len(text.splitlines()) <= 20
    assert text.splitlines()[-1].startswith("without example_inputs, 1 place more would stop it, such as ")


def test_a_model_that_can_be_traced_has_no_obstacles():
    found = fxcore.diagnose(nn.Linear(3, 3), torch.rand(2, 3))

    assert found.is_traceable
    assert str(found) == "nothing stands in the way of a trace with these example inputs"


def test_a_module_that_fails_is_told_with_its_line():
    class Broken(nn.Module):
        def forward(self, x):
            return x + len(str(x.tolist()))

    found = fxcore.diagnose(nn.Sequential(nn.ReLU(), Broken()), torch.rand(3))

    assert [each.source for each in found.obstacles] == ["return x + len(str(x.tolist()))"]
    assert found.obstacles[0].module_path == "1"
