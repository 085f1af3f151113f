"""Times of nodes: what is measured, how it is told, and that the parts make up the whole."""

from __future__ import annotations

import importlib
import json
import time

import pytest
import torch
from torch import nn

import fxcore
from fixtures.models.gpt_like import GptLike
from fxcore.transforms.analysis.profile import GraphProfile, NodeTime, _kernel_seconds, profile

NET = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.fixture(scope="module")
def traced():
    return fxcore.symbolic_trace(NET)


@pytest.fixture(scope="module")
def times(traced):
    return profile(traced, torch.ones(2, 8), warmup=1, repeats=5, kernels=True)


def test_every_call_is_timed_in_every_run_but_those_to_warm_up(traced, times):
    assert [each.node.name for each in times.nodes] == ["_0", "_1", "_2"]
    assert [each.module for each in times.nodes] == ["0", "1", "2"]
    assert {len(each.seconds) for each in times.nodes} == {5} == {len(times.whole)}
    assert all(0 < each.median < 1 and each.kernel_seconds > 0 for each in times.nodes)


def test_a_method_is_timed_too():
    (only,) = profile(fxcore.symbolic_trace(lambda x: x.relu()), torch.ones(2), warmup=0, repeats=2).nodes

    assert (only.node.name, len(only.seconds)) == ("relu", 2)


def test_every_call_waits_for_the_accelerator(traced, monkeypatch):
    waits = []
    module = importlib.import_module("fxcore.transforms.analysis.profile")
    monkeypatch.setattr(module, "_waits_for", lambda *_: lambda: waits.append(1))

    profile(traced, torch.ones(2, 8), warmup=1, repeats=2)

    assert len(waits) == 3 * 3


def test_one_slow_run_does_not_move_the_median(traced):
    node = next(iter(traced.graph.nodes))

    assert NodeTime(node, "", (1.0, 1.1, 9.0)).median == 1.1
    assert NodeTime(node, "", (1.0, 1.1, 9.0)).spread == pytest.approx(0.1)


def test_the_table_tells_the_slowest_first(traced):
    first, second, third = (node for node in traced.graph.nodes if node.op == "call_module")
    times = GraphProfile(
        (NodeTime(first, "0", (1e-6,)), NodeTime(second, "1", (3e-6,)), NodeTime(third, "2", (2e-6,))), ()
    )

    rows = [line.split() for line in times.table(most=2).splitlines()]

    assert rows == [
        ["node", "module", "median", "us", "spread", "us", "share"],
        ["_1", "1", "3.0", "0.0", "50.0%"],
        ["_2", "2", "2.0", "0.0", "33.3%"],
        ["total", "3", "nodes", "6.0", "100.0%"],
    ]


def test_the_trace_is_what_chrome_reads(times):
    events = json.loads(times.chrome_trace())["traceEvents"]

    assert [event["name"] for event in events] == ["_0", "_1", "_2"]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def test_progress_is_shown_by_what_wraps_the_runs(traced):
    seen = []

    profile(
        traced, torch.ones(2, 8), warmup=1, repeats=2, progress=lambda runs: (seen.append(run) or run for run in runs)
    )

    assert seen == [0, 1, 2]


def test_no_runs_are_refused(traced):
    with pytest.raises(ValueError, match="there is at least one run to measure"):
        profile(traced, torch.ones(2, 8), repeats=0)


@pytest.mark.long
def test_the_parts_of_a_profile_make_up_the_whole_run():
    traced = fxcore.symbolic_trace(GptLike(layers=4, width=512, heads=8, context=128).eval())
    tokens = torch.zeros(1, 128, dtype=torch.int64)
    profile(traced, tokens, warmup=3, repeats=1)
    sums, wholes = [], []
    with torch.no_grad():
        for _ in range(20):  # in turn, and the best of each: the machine has other things to do as well
            sums.append(profile(traced, tokens, warmup=0, repeats=1).total)
            began = time.perf_counter()
            traced(tokens)
            wholes.append(time.perf_counter() - began)

    assert min(sums) == pytest.approx(min(wholes), rel=0.1)


def test_kernels_are_counted_for_the_nodes_alone(traced):
    found = _kernel_seconds(traced, (torch.ones(2, 8),))

    assert found.keys() == {"input_1", "_0", "_1", "_2", "output"}
    assert sum(found.values()) > 0
