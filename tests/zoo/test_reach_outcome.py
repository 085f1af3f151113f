"""What the measuring of a model finds, on small models of our own: the packages of the list are not needed."""

from __future__ import annotations

import json
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from benchmarks.reach import table
from benchmarks.reach.outcome import VARIES, facts_of, outcome_of
from benchmarks.reach.worker import measured
from fixtures.reach.model import Normal, ReachModel, call


class Residual(nn.Module):
    """Asks for shapes, and goes on for any of them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        assert x.dim() == 2
        return F.dropout(x + self.layer(x), training=self.training) if x.shape[1] == 4 else x


class Summed(nn.Module):
    """Has a graph for one batch size: for another, its guards refuse the inputs."""

    def forward(self, x):
        return sum(x[index] for index in range(x.shape[0]))


class Branching(nn.Module):
    """Branches on contents."""

    def __init__(self):
        super().__init__()
        self.inner = Gate()

    def forward(self, x):
        return self.inner(x) + 1


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Counting(nn.Module):
    """Changes what it keeps in train mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.total += 1
        return x + self.total


class Unset(nn.Module):
    """Leaves its parameters to be loaded, and draws with Python's generator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(64, 64))
        self.scale = random.random()

    def forward(self, x):
        return (self.weight * self.scale).sum() + x


class Unseeded(nn.Module):
    """Draws from a generator that no seed reaches."""

    def __init__(self):
        super().__init__()
        self.generator = random.SystemRandom()

    def forward(self, x):
        return x + self.generator.random()


def reach_model(kind):
    return ReachModel("here", kind.__name__, call(f"{__name__}:{kind.__name__}"), (Normal("B 4"),))


def test_a_right_graph_is_right_in_both_modes():
    for train in (False, True):
        found = outcome_of(reach_model(Residual), "examples", 60, train=train)

        assert table.verdict(found) == "right"
        traced = fxcore.symbolic_trace(Residual().train(train), example_inputs=torch.rand(2, 4))
        assert found["guards"] == len(traced.graph.guards) > 2  # on the mode, the rank and the size


def test_inputs_that_the_guards_refuse_are_no_wrong_result():
    found = outcome_of(reach_model(Summed), "examples", 60)

    assert table.verdict(found) == "one size"
    assert "x.shape[0] == 2: it is 3" in found["second"]


def test_a_branch_on_contents_is_refused_and_auto_leaves_give_a_graph():
    refused = outcome_of(reach_model(Branching), "examples", 60)
    automatic = outcome_of(reach_model(Branching), "auto", 60)

    assert (table.verdict(refused), refused["cause"]) == ("failed", "control flow on a tensor's numbers")
    assert table.verdict(automatic) == "right"


def test_what_a_run_changes_the_next_does_not_see():
    assert table.verdict(outcome_of(reach_model(Counting), "examples", 60, train=True)) == "right"


def test_a_model_is_built_the_same_each_time():
    first, second = (reach_model(Unset).build() for _ in range(2))

    assert torch.equal(first.weight, second.weight)
    assert not first.weight.isnan().any()
    assert first.scale == second.scale
    assert facts_of(reach_model(Unset), 60)["repeatable"] is None


def test_a_model_that_differs_from_itself_is_not_comparable():
    found = outcome_of(reach_model(Unseeded), "examples", 60)

    assert found["example"] == f"{VARIES}: tensor 0 has other values"
    assert table.verdict(found) == "not comparable"


@pytest.fixture
def results():
    task = {"ways": ["torch_fx", "examples", "auto"], "limit": 60, "train": True, "brief": False}
    kinds = (Residual, Summed, Branching)
    found = [{"model": str(reach_model(kind)), **measured(reach_model(kind), **task)} for kind in kinds]
    missing = ReachModel("gone", "model", call("no_such_package:Model"), ())
    return [*found, {"model": str(missing), **measured(missing, **task)}]


def test_the_tables_count_what_was_found(results, tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in results))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")

    table.write_tables([str(file), str(page)])

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| **all** | 3 | 0 | 2 | 3 |" in text
    assert "| fxcore, with examples | 2 | 1 |" in text
    assert "| control flow on a tensor's numbers | 1 | 1 | 1 | 1 |  |  |" in text
    assert "| here/Branching | eval | control flow on a tensor's numbers |" in text
    assert "| gone/model | missing | ModuleNotFoundError: No module named 'no_such_package' |" in text
