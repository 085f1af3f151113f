"""Observation of a graph's values while it runs: logs, times, and guards against NaN, infinity and other ranges."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.codegen.comments import innermost_frame
from fxcore.errors import ValueRangeError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.infra.working_copy import Changes, RewritingPass, free_name
from fxcore.transforms.analysis.costs import module_path

__all__ = ["Instrument", "Log", "RemoveInstruments", "Site", "Timing", "ValueGuard", "origin_of"]


@dataclass(frozen=True)
class Site:
    """The origin of a value, for messages."""

    node: str
    module: str  # the path of the module that runs, or that is called; "" for the outermost
    source: str  # "file.py:12: y = x / z" if the trace recorded it, else ""

    def __str__(self) -> str:
        place = f" in module {self.module!r}" if self.module else ""
        return f"{self.node!r}{place}" + (f", from {self.source}" if self.source else "")


def origin_of(node: Node) -> Site:
    """Return where the value of a node comes from.

    Source lines are known if the tracer recorded them, as tracers with `record_stack_traces` do.
    """
    frame = innermost_frame(node.stack_trace)
    return Site(node.name, module_path(node), "" if frame is None else f"{frame.file}:{frame.lineno}: {frame.code}")


class Watcher(nn.Module):
    """Looks at the value of a node right after it was computed. Subclasses handle the value in `forward`."""

    _is_impure = True  # dead code elimination keeps the call, although its result has no reader

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site


class ValueGuard(Watcher):
    """Raises ValueRangeError (a ValueError) for a value that is NaN, infinite, or not between two bounds."""

    def __init__(
        self, site: Site, *, nan: bool = True, inf: bool = True, low: float = -math.inf, high: float = math.inf
    ) -> None:
        """Choose the values to refuse; NaN and infinity by default."""
        super().__init__(site)
        self.nan, self.inf, self.low, self.high = nan, inf, low, high

    def forward(self, value: Any) -> None:
        """Look at every floating or integer tensor in a value."""
        for tensor in _tensors(value):
            wrong = self._wrong(tensor)
            if wrong:
                raise ValueRangeError(
                    f"the value of {self.site} {wrong}: a tensor of shape {list(tensor.shape)} and {tensor.dtype}; "
                    "look at what this node reads, or run without the guard"
                )

    def _wrong(self, tensor: torch.Tensor) -> str:
        if not tensor.numel() or tensor.dtype is torch.bool or tensor.is_meta:
            return ""
        if tensor.is_floating_point() or tensor.is_complex():
            if self.nan and (count := int(tensor.isnan().sum())):
                return f"has {count} NaN"
            if self.inf and (count := int(tensor.isinf().sum())):
                return f"has {count} infinite elements"
        if tensor.is_complex() or (self.low == -math.inf and self.high == math.inf):
            return ""
        smallest, largest = (float(each) for each in tensor.detach().aminmax())
        if smallest < self.low or largest > self.high:
            return f"lies between {smallest:g} and {largest:g}, not between {self.low:g} and {self.high:g}"
        return ""


class Log(Watcher):
    """Writes a line about a value: shape, dtype, range."""

    def __init__(self, site: Site, write: Callable[[str], object] | None = None) -> None:
        """Write by `write`, a function of a line; to stderr by default."""
        super().__init__(site)
        self.write = write

    def forward(self, value: Any) -> None:
        """Write shape, dtype and range of a value."""
        line = f"{self.site}: {', '.join(map(_description, _tensors(value))) or repr(value)}"
        if self.write is None:
            print(line, file=sys.stderr)
        else:
            self.write(line)


class Timing(Watcher):
    """Measures the time between its two calls: one before the node, without a value, and one after it."""

    def __init__(self, site: Site) -> None:
        """Start without any time."""
        super().__init__(site)
        self.seconds: list[float] = []
        self._started = 0.0

    def forward(self, *value: Any) -> None:
        """Note the time; on an accelerator, wait for the end of all started work."""
        if any(tensor.is_cuda for tensor in _tensors(list(value))):
            torch.cuda.synchronize()
        if value:
            self.seconds.append(time.perf_counter() - self._started)
        else:
            self._started = time.perf_counter()


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _description(tensor: torch.Tensor) -> str:
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if not tensor.numel() or tensor.is_meta or tensor.is_complex() or tensor.is_quantized:
        return text
    low, high = (float(each) for each in tensor.detach().to(torch.float64).aminmax())
    return f"{text} from {low:g} to {high:g}"


def _is_computed(node: Node) -> bool:
    return node.op.startswith("call_")


def _is_watcher(node: Node, gm: GraphModule) -> bool:
    return node.op == "call_module" and isinstance(get_attribute(gm, str(node.target)), Watcher)


@dataclass(frozen=True)
class Instrument(RewritingPass):
    """Calls a watcher after the nodes that `where` answers True for; by default after all calls.

    `watcher` makes a watcher for a Site: `ValueGuard`, `Log`, `Timing`, or your own Watcher. The results of the graph
    stay the same. The watchers are modules of the result, `watchers.<node>`; `RemoveInstruments` takes them out.
    """

    watcher: Callable[[Site], Watcher]
    where: Callable[[Node], bool] = field(default=_is_computed)

    def rewrite(self, made: GraphModule) -> Changes:
        """Add the watchers."""
        nodes = [node for node in made.graph.nodes if node.op != "output" and not _is_watcher(node, made)]
        watched = [node for node in nodes if self.where(node)]
        inputs = made.graph.find_nodes(op="placeholder")
        root = free_name(made, "watchers")
        for node in watched:
            watcher = self.watcher(origin_of(node))
            path = f"{root}.{free_name(nn.Module(), node.name)}"  # a node may have the name of a method of modules
            set_attribute(made, path, watcher)
            # Placeholders stand first.
            with made.graph.inserting_after(inputs[-1] if node.op == "placeholder" else node):
                made.graph.call_module(path, (node,))
            if isinstance(watcher, Timing):
                with made.graph.inserting_before(node if node.op != "placeholder" else inputs[-1].next):
                    made.graph.call_module(path)
        return [node.name for node in watched], {}


class RemoveInstruments(RewritingPass):
    """Removes the watchers of `Instrument`."""

    def rewrite(self, made: GraphModule) -> Changes:
        """Remove the watchers."""
        watchers = [node for node in made.graph.nodes if _is_watcher(node, made)]
        for node in watchers:
            made.graph.erase_node(node)
        return [str(node.target) for node in watchers], {}
