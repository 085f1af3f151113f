"""The time of each node of a graph, by running it: wall time with warm-up, repeats and robust statistics."""

from __future__ import annotations

import json
import operator
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxcore.graph import gc_paused
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.transforms.analysis.costs import aligned, module_path

Progress = Callable[[Sequence[int]], Iterable[int]]


@dataclass(frozen=True)
class NodeTime:
    """The seconds that one node took, run by run."""

    node: Node
    module: str
    seconds: tuple[float, ...]
    kernel_seconds: float | None = None  # of one run, by torch.profiler, if it was asked for

    @property
    def median(self) -> float:
        """The median of the runs. One slow run does not move it."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The median distance from the median."""
        return statistics.median(abs(each - self.median) for each in self.seconds)


@dataclass(frozen=True)
class GraphProfile:
    """The times of a graph's calls in the order of execution, and of the whole run."""

    nodes: tuple[NodeTime, ...]
    whole: tuple[float, ...]  # seconds of runs node by node, overhead of the interpreter included
    starts: tuple[float, ...] = field(default=(), repr=False)  # of each node in the last run

    @property
    def total(self) -> float:
        """The sum of the nodes' medians."""
        return sum(each.median for each in self.nodes)

    def table(self, most: int = 20) -> str:
        """Write the slowest nodes, the slowest first."""
        slowest = sorted(self.nodes, key=lambda each: -each.median)[:most]
        has_kernels = any(each.kernel_seconds is not None for each in self.nodes)
        head = ("node", "module", "median us", "spread us", *(["kernels us"] if has_kernels else []), "share")
        rows = [head]
        for each in slowest:
            kernels = [f"{(each.kernel_seconds or 0) * 1e6:.1f}"] if has_kernels else []
            share = f"{each.median / (self.total or 1):.1%}"
            times = (f"{seconds * 1e6:.1f}" for seconds in (each.median, each.spread))
            rows.append((each.node.name, each.module or "(root)", *times, *kernels, share))
        blank = [""] if has_kernels else []
        rows.append(("total", f"{len(self.nodes)} nodes", f"{self.total * 1e6:.1f}", "", *blank, "100.0%"))
        return aligned(rows)

    def chrome_trace(self) -> str:
        """Write the last run as the JSON that chrome://tracing and Perfetto read."""
        events = [
            {"name": each.node.name, "cat": each.module or "(root)", "ph": "X", "pid": 0, "tid": 0,
             "ts": start * 1e6, "dur": each.seconds[-1] * 1e6,
             "args": {"op": each.node.op, "target": str(each.node.target), "median_us": each.median * 1e6}}
            for each, start in zip(self.nodes, self.starts, strict=True)
        ]  # fmt: skip
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def profile(
    module: nn.Module,
    *args: Any,
    warmup: int = 3,
    repeats: int = 10,
    kernels: bool = False,
    progress: Progress | None = None,
) -> GraphProfile:
    """Run a graph module node by node on arguments and measure each call, without gradients.

    The first `warmup` runs do not count. On a GPU, the measurement waits for every call. With `kernels`, one more run
    under torch.profiler measures the kernels of each call. `progress` wraps the numbers of the runs, as tqdm does. The
    module is run as it is: in train mode its buffers change. Raises ValueError for fewer than one repeat.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"warmup={warmup}, repeats={repeats}: there is at least one run to measure; use repeats=10")
    timer = _Timer(module, _waits_for(module, args))
    # As timeit does, because garbage of other code must not count.
    with torch.no_grad(), gc_paused():
        for number in (progress or iter)(range(warmup + repeats)):
            timer.measure(args, is_counted=number >= warmup)
        kernel_seconds = _kernel_seconds(module, args) if kernels else {}
    nodes = tuple(
        NodeTime(node, module_path(node), tuple(seconds), kernel_seconds.get(node.name))
        for node, seconds in timer.seconds.items()
    )
    return GraphProfile(nodes, tuple(timer.whole), tuple(timer.starts.values()))


class _Timer(Interpreter):
    def __init__(self, module: nn.Module, wait: Callable[[], None] | None) -> None:
        super().__init__(module)
        self.seconds: dict[Node, list[float]] = {}
        self.starts: dict[Node, float] = {}
        self.whole: list[float] = []
        self._wait = wait
        self._is_counted = False
        self._began = 0.0
        self._node: Node

    def measure(self, args: tuple[Any, ...], *, is_counted: bool) -> None:
        """Run the graph once."""
        self._is_counted = is_counted
        self._began = time.perf_counter()
        self.run(*args)
        if is_counted:
            self.whole.append(time.perf_counter() - self._began)

    def run_node(self, n: Node) -> Any:
        self._node = n
        return super().run_node(n)

    # Measure the work of generated code for a node, with the walk to a submodule, and nothing else of the interpreter.

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._timed(lambda _: target, None, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._timed(operator.attrgetter(target), args[0], args[1:], kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._timed(operator.attrgetter(target), self.module, args, kwargs)

    def _timed(self, callee_of: Callable[[Any], Any], owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        node = self._node
        began = time.perf_counter()
        result = callee_of(owner)(*args, **kwargs)
        if self._wait is not None:
            self._wait()
        ended = time.perf_counter()
        if self._is_counted:
            self.seconds.setdefault(node, []).append(ended - began)
            self.starts[node] = began - self._began
        return result


def _waits_for(module: nn.Module, args: tuple[Any, ...]) -> Callable[[], None] | None:
    """Return a function that waits until the accelerator has finished, or None on the CPU."""
    tensors = [*module.parameters(), *module.buffers(), *(arg for arg in args if isinstance(arg, torch.Tensor))]
    return torch.cuda.synchronize if any(tensor.is_cuda for tensor in tensors) else None


class _Annotated(Interpreter):
    """Gives each call a name that the profiler keeps."""

    def run_node(self, n: Node) -> Any:
        with torch.profiler.record_function(_MARK + n.name):
            return super().run_node(n)


_MARK = "node: "


def _kernel_seconds(module: nn.Module, args: tuple[Any, ...]) -> dict[str, float]:
    """Map the name of each node to the time of the operators inside it, on the device if there is one."""
    is_cuda = _waits_for(module, args) is not None
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA] if is_cuda else [kinds.CPU]) as profiler:
        _Annotated(module).run(*args)
    found: dict[str, float] = {}
    for event in profiler.events():
        if event.name.startswith(_MARK) and "CUDA" not in str(event.device_type):
            name = event.name.removeprefix(_MARK)
            times = [child.device_time_total if is_cuda else child.cpu_time_total for child in event.cpu_children]
            found[name] = found.get(name, 0.0) + sum(times) * 1e-6
    return found
