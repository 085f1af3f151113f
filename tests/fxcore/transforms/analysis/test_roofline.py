"""Attainable against achieved: what bounds a node, and how near it comes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import fxcore
from fxcore.transforms.analysis.costs import Cost, graph_costs
from fxcore.transforms.analysis.profile import profile
from fxcore.transforms.analysis.roofline import PEAKS, Peaks, measure_peaks, peaks_named, roofline

NET = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.fixture(scope="module")
def traced():
    return fxcore.symbolic_trace(NET)


@pytest.fixture(scope="module")
def times(traced):
    return profile(traced, torch.ones(2, 8), warmup=0, repeats=2)


def test_the_roof_is_the_slower_of_arithmetic_and_memory():
    peaks = Peaks(flops=100.0, bandwidth=10.0)

    assert peaks.ridge == 10
    assert peaks.attainable(Cost(flops=200, bytes_read=10)) == 2
    assert peaks.attainable(Cost(flops=10, bytes_read=10, bytes_written=10)) == 2


def test_nodes_are_told_with_what_bounds_them_and_how_near_they_come(traced, times):
    costs = graph_costs(traced, torch.ones(2, 8))

    roof = roofline(costs, times, Peaks(1e15, 1e9, "a fast one"))

    assert all(point.is_bound_by_memory for point in roof.points)
    first = roof.points[0]
    assert first.attainable == first.cost.bytes / 1e9
    assert first.efficiency == first.attainable / first.seconds
    head, _, row, *_ = roof.table().splitlines()
    assert head == "peaks (a fast one): 1,000,000.0 GFLOP/s, 1.0 GB/s, ridge at 1000000.0 FLOPs/byte"
    assert " memory " in row


def test_costs_and_times_of_two_graphs_are_refused(times):
    costs = graph_costs(fxcore.symbolic_trace(nn.ReLU()), torch.ones(2))

    with pytest.raises(ValueError, match="the node '_0' was timed and has no costs: these are two graphs"):
        roofline(costs, times, PEAKS["h200"])


def test_peaks_are_known_by_name_or_measured():
    assert peaks_named("h200").bandwidth == 4.8e12
    with pytest.raises(ValueError, match="no peaks are known for 'abacus'; there are a100"):
        peaks_named("abacus")
    measured = measure_peaks(seconds=0.05)
    assert measured.flops > 1e8 < measured.bandwidth


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_measured_peaks_count_two_operations_for_a_product_and_copied_bytes_twice(monkeypatch, seconds):
    asked = []
    monkeypatch.setattr(torch, "rand", lambda *sizes, **_: torch.empty(sizes, device="meta"))

    def best(run, device, limit):
        asked.append((device, limit))
        return 0.5

    monkeypatch.setattr("fxcore.transforms.analysis.roofline._best", best)

    peaks = measure_peaks(seconds=seconds)

    assert peaks == Peaks(2 * 1024**3 / 0.5, 2 * 2**23 * 4 / 0.5, "measured on cpu")
    assert asked == [("cpu", pytest.approx(seconds / 3))] * 3


def test_the_table_has_the_slowest_20_nodes_and_the_total():
    traced = fxcore.symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(21))))
    costs = graph_costs(traced, torch.ones(1000))
    times = profile(traced, torch.ones(1000), warmup=0, repeats=1)
    points = tuple(
        replace(point, seconds=(number + 1) * 1e-6)
        for number, point in enumerate(roofline(costs, times, Peaks(5e9, 40e9)).points)
    )
    roof = replace(roofline(costs, times, Peaks(5e9, 40e9, "a slow one")), points=points)

    head, names, first, *rows = roof.table().splitlines()

    assert head == "peaks (a slow one): 5.0 GFLOP/s, 40.0 GB/s, ridge at 0.1 FLOPs/byte"
    assert len(rows) == 20
    assert names.split()[:4] == ["node", "module", "GFLOP/s", "GB/s"]
    # 1,000 operations and 8,000 bytes in 21 microseconds; either takes 0.2 microseconds at least.
    assert first.split() == ["_20", "20", "0.05", "0.38", "0.12", "arithmetic", "0.2", "21.0", "1.0%"]
    assert rows[-1].split() == ["total", "4.2", "231.0", "1.8%"]
    assert len(roof.table(2).splitlines()) == 5
