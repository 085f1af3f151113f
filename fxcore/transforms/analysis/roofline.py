"""The roofline: the attainable speed of each node on a machine, from the node's costs, and its measured speed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fxcore.node import Node
from fxcore.transforms.analysis.costs import Cost, GraphCosts, aligned
from fxcore.transforms.analysis.profile import GraphProfile


@dataclass(frozen=True)
class Peaks:
    """The peak arithmetic and bandwidth of a machine."""

    flops: float  # floating-point operations in a second
    bandwidth: float  # bytes to and from memory in a second
    name: str = "measured"

    @property
    def ridge(self) -> float:
        """The operations for each byte above which arithmetic is the limit."""
        return self.flops / self.bandwidth

    def attainable(self, cost: Cost) -> float:
        """Return the seconds that a cost takes at least."""
        return max(cost.flops / self.flops, cost.bytes / self.bandwidth)


# Figures of the vendors, dense. A name with bf16 stands for 16-bit matrix units.
PEAKS = {
    "a100": Peaks(19.5e12, 2.039e12, "a100"),
    "a100-bf16": Peaks(312e12, 2.039e12, "a100-bf16"),
    "h100": Peaks(67e12, 3.35e12, "h100"),
    "h100-bf16": Peaks(989e12, 3.35e12, "h100-bf16"),
    "h200": Peaks(67e12, 4.8e12, "h200"),
    "h200-bf16": Peaks(989e12, 4.8e12, "h200-bf16"),
    "l4": Peaks(30.3e12, 0.3e12, "l4"),
    "t4": Peaks(8.1e12, 0.32e12, "t4"),
}


def peaks_named(name: str) -> Peaks:
    """Return the peaks of a known machine. Raises ValueError, with the known names, for another name."""
    if name not in PEAKS:
        raise ValueError(f"no peaks are known for {name!r}; there are {', '.join(PEAKS)}, or measure_peaks()")
    return PEAKS[name]


def measure_peaks(device: str = "cpu", dtype: torch.dtype = torch.float32, seconds: float = 2.0) -> Peaks:
    """Measure a machine by multiplying matrices and copying memory: the best of runs that fill about `seconds`.

    Some runs are short, because a busy machine is free for short times only.
    """
    sides, length = ((512, 1024), 2**23) if device == "cpu" else ((4096, 8192), 2**28)
    source = torch.zeros(length, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    flops = 0.0
    with torch.no_grad():
        for side in sides:
            matrix = torch.rand(side, side, dtype=dtype, device=device)
            best = _best(functools.partial(torch.mm, matrix, matrix), device, seconds / 3)
            flops = max(flops, 2 * side**3 / best)
        copying = _best(lambda: target.copy_(source), device, seconds / 3)
    return Peaks(flops, 2 * length * source.element_size() / copying, f"measured on {device}")


def _best(run: Callable[[], object], device: str, seconds: float) -> float:
    best = float("inf")
    end = time.perf_counter() + seconds
    runs = 0
    while runs < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
        runs += 1
    return best


@dataclass(frozen=True)
class RooflinePoint:
    """One node on the roofline."""

    node: Node
    module: str
    cost: Cost
    seconds: float
    attainable: float  # seconds at least
    is_bound_by_memory: bool  # moving the bytes takes longer than the arithmetic

    @property
    def efficiency(self) -> float:
        """The part of the attainable speed that is reached."""
        return self.attainable / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Roofline:
    """The nodes of a graph under the roof of a machine."""

    peaks: Peaks
    points: tuple[RooflinePoint, ...]

    def table(self, most: int = 20) -> str:
        """Write the nodes that take longest: attainable against achieved."""
        rows = [
            ("node", "module", "GFLOP/s", "GB/s", "FLOPs/byte", "bound by", "attainable us", "achieved us", "of roof")
        ]
        for each in sorted(self.points, key=lambda point: -point.seconds)[:most]:
            seconds = each.seconds or 1e-12
            rows.append((each.node.name, each.module or "(root)", f"{each.cost.flops / seconds / 1e9:.2f}",
                         f"{each.cost.bytes / seconds / 1e9:.2f}", f"{each.cost.intensity:.2f}",
                         "memory" if each.is_bound_by_memory else "arithmetic", f"{each.attainable * 1e6:.1f}",
                         f"{each.seconds * 1e6:.1f}", f"{each.efficiency:.1%}"))  # fmt: skip
        whole, least = (sum(values) for values in zip(*((p.seconds, p.attainable) for p in self.points), strict=True))
        rows.append(
            ("total", "", "", "", "", "", f"{least * 1e6:.1f}", f"{whole * 1e6:.1f}", f"{least / (whole or 1):.1%}")
        )
        head = (
            f"peaks ({self.peaks.name}): {self.peaks.flops / 1e9:,.1f} GFLOP/s, "
            f"{self.peaks.bandwidth / 1e9:,.1f} GB/s, ridge at {self.peaks.ridge:.1f} FLOPs/byte"
        )
        return f"{head}\n{aligned(rows)}"


def roofline(costs: GraphCosts, times: GraphProfile, peaks: Peaks) -> Roofline:
    """Put the nodes of a graph that move bytes or compute under the roof of a machine.

    Raises ValueError if costs and times are of different graphs.
    """
    cost_of = {each.node.name: each.cost for each in costs.nodes}
    points = []
    for each in times.nodes:
        cost = cost_of.get(each.node.name)
        if cost is None:
            raise ValueError(f"the node {each.node.name!r} was timed and has no costs: these are two graphs")
        if cost.flops or cost.bytes:
            is_bound_by_memory, least = cost.intensity < peaks.ridge, peaks.attainable(cost)
            points.append(RooflinePoint(each.node, each.module, cost, each.median, least, is_bound_by_memory))
    return Roofline(peaks, tuple(points))
