"""Watchers see every value, name where it comes from, and change nothing."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import ValueRangeError
from fxcore.transforms.instrumentation import Instrument, Log, RemoveInstruments, Timing, ValueGuard
from pytest_fxgraph import check_transform


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return torch.log(self.lin(x))  # the line


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x) * 2


class WithLines(fxcore.Tracer):
    record_stack_traces = True


def traced():
    torch.manual_seed(0)
    model = Net()
    return fxcore.GraphModule(model, WithLines().trace(model))


@pytest.mark.parametrize("watcher", [ValueGuard, lambda site: Log(site, lambda line: None), Timing])
def test_the_fixture_for_transforms_finds_nothing_wrong(watcher):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    check_transform(Instrument(watcher), model, (torch.randn(2, 4),), grads=True, idempotent=False)


def test_a_guard_names_module_and_source_line():
    guarded = Instrument(ValueGuard)(traced()).graph_module

    with pytest.raises(ValueRangeError) as refused:
        guarded(torch.full((1, 4), 100.0))

    message = str(refused.value)
    assert message.startswith("the value of 'log' in module 'block', from ")
    assert "test_instrumentation.py:" in message
    assert "return torch.log(self.lin(x))  # the line has 3 NaN: a tensor of shape [1, 4] and torch.float32" in message


@pytest.mark.parametrize(
    ("options", "value", "words"),
    [
        ({}, [1.0, math.inf], "has 1 infinite elements"),
        ({}, [math.nan, math.nan], "has 2 NaN"),
        ({"nan": False, "inf": False}, [math.nan, math.inf], ""),
        ({"low": 0, "high": 1}, [0.5, 2.0], "lies between 0.5 and 2, not between 0 and 1"),
        ({"low": 0}, [-1, 2], "lies between -1 and 2, not between 0 and inf"),
        ({"low": 0, "high": 3}, [1, 2], ""),
        ({"low": 1, "high": 2}, [1.0, 2.0], ""),
        ({"high": 1}, [1.0, 2.0], "lies between 1 and 2, not between -inf and 1"),
        ({"high": 0}, [True, False], ""),
        ({"low": 5, "high": 6}, [1 + 2j], ""),
    ],
)
def test_guards_refuse_what_they_are_told_to(options, value, words):
    gm = fxcore.symbolic_trace(lambda x: {"pair": (x.view(-1), 3)})
    guarded = Instrument(lambda site: ValueGuard(site, **options))(gm).graph_module

    if words:
        with pytest.raises(ValueRangeError, match=words):
            guarded(torch.tensor(value))
    else:
        guarded(torch.tensor(value))


def test_a_log_writes_a_line_for_each_value_and_inputs_if_asked_for():
    lines = []
    instrument = Instrument(lambda site: Log(site, lines.append), where=lambda node: node.op != "get_attr")

    instrument(fxcore.symbolic_trace(lambda x, y: (x + y).sum()))[0](torch.ones(2), torch.ones(2, dtype=torch.int32))

    assert lines == [
        "'y': int32[2] from 1 to 1",
        "'x': float32[2] from 1 to 1",
        "'add': float32[2] from 2 to 2",
        "'sum_1': float32[] from 4 to 4",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.ones(2, dtype=torch.complex64), "complex64[2]"),
        (torch.ones(0, 3), "float32[0, 3]"),
        (torch.ones(2, device="meta"), "float32[2]"),
        (torch.full((2,), -0.5), "float32[2] from -0.5 to -0.5"),
        (torch.tensor([True, False]), "bool[2] from 0 to 1"),
    ],
)
def test_a_log_tells_the_range_of_values_that_have_one(value, text):
    lines = []

    Instrument(lambda site: Log(site, lines.append))(fxcore.symbolic_trace(lambda x: x.view(x.shape)))[0](value)

    assert lines[-1] == f"'view': {text}"


def test_a_log_goes_to_stderr_by_default(capsys):
    Instrument(Log)(fxcore.symbolic_trace(lambda x: torch.relu(x)))[0](torch.ones(2))

    assert capsys.readouterr().err == "'relu': float32[2] from 1 to 1\n"


def test_a_node_may_be_called_as_a_method_of_modules():
    gm = fxcore.symbolic_trace(lambda x: x.to(torch.float64).half())

    guarded = Instrument(ValueGuard)(gm).graph_module

    assert [name for name, _ in guarded.watchers.named_children()] == ["to_1", "half_1"]
    assert guarded(torch.ones(2)).dtype is torch.float16


def test_times_are_kept_for_every_run():
    timed = Instrument(Timing, where=lambda node: node.name == "block_lin")(traced()).graph_module

    for _ in range(3):
        timed(torch.ones(1, 4))

    assert len(timed.watchers.block_lin.seconds) == 3
    assert all(0 < seconds < 60 for seconds in timed.watchers.block_lin.seconds)


def test_watchers_survive_dead_code_elimination_copies_and_pickles_and_can_be_taken_out():
    gm = traced()
    guarded = Instrument(ValueGuard)(gm).graph_module
    assert not guarded.graph.eliminate_dead_code()

    for each in (guarded, copy.deepcopy(guarded), pickle.loads(pickle.dumps(guarded))):
        with pytest.raises(ValueRangeError):
            each(torch.full((1, 4), 100.0))
    removed = RemoveInstruments()(guarded)

    assert str(removed.graph_module.graph) == str(gm.graph)
    assert not hasattr(removed.graph_module, "watchers")
    assert not RemoveInstruments()(gm).modified


def test_watchers_are_not_watched_and_go_together():
    gm = fxcore.symbolic_trace(Net())
    calls = len(gm.graph.find_nodes(op="call_module"))

    once = Instrument(Timing)(gm).graph_module
    twice = Instrument(ValueGuard)(once).graph_module
    removed = RemoveInstruments()(twice).graph_module

    assert len(list(once.graph.nodes)) - len(list(gm.graph.nodes)) == 2 * watched(gm)
    assert len(list(twice.graph.nodes)) - len(list(once.graph.nodes)) == watched(gm)
    assert len(removed.graph.find_nodes(op="call_module")) == calls
    assert removed.code == gm.code


def watched(gm):
    return sum(node.op.startswith("call_") for node in gm.graph.nodes)


def test_a_graph_without_such_nodes_comes_back_itself():
    gm = traced()

    assert Instrument(ValueGuard, where=lambda node: False)(gm).graph_module is gm


@pytest.mark.parametrize("watcher", [ValueGuard, Timing])
def test_watchers_of_inputs_stand_behind_all_inputs(watcher):
    gm = fxcore.symbolic_trace(lambda x, y, z: x + y * z)

    made = Instrument(watcher, where=lambda node: node.op == "placeholder")(gm).graph_module

    made.graph.lint()
    ops = [node.op for node in made.graph.nodes]
    calls = 3 if watcher is ValueGuard else 6
    assert ops == ["placeholder"] * 3 + ["call_module"] * calls + ["call_function"] * 2 + ["output"]
    assert made(1.0, 2.0, 3.0) == 7.0
