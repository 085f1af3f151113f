"""What a graph costs, as a golden of level `cost` holds it: plain numbers, a line a module. Knows no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CostRecord:
    """The costs of the nodes of one module, of one node, or of the whole graph."""

    flops: int = 0
    read: int = 0  # bytes
    written: int = 0  # bytes
    params: int = 0  # elements
    nodes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


# The keys of a line, in order.
COUNTS = ("flops", "read", "written", "params", "nodes")


@dataclass(frozen=True)
class CostBlock:
    """The costs of a graph."""

    total: CostRecord
    peak_activation: int  # bytes
    peak_at: str  # path of the module in which most is live
    modules: tuple[tuple[str, CostRecord], ...] = ()  # by path, in the order of execution; "" is the outermost
    uncounted: tuple[str, ...] = ()  # operators whose FLOPs nobody knows
    # Of a graph just measured, by name of node; never written, never compared.
    by_node: Mapping[str, CostRecord] = field(default_factory=dict, compare=False, repr=False)
    held: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)  # bytes by node, at the peak

    def metric(self, name: str) -> int:
        """Return a metric of the whole graph: "flops", "bytes", "params", "peak_activation" or "nodes"."""
        value: int = self.peak_activation if name == "peak_activation" else getattr(self.total, name)
        return value
