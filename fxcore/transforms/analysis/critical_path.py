"""The longest chain of nodes that wait for each other, and how much could run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.passes.tools_common import CALLABLE_NODE_OPS


@dataclass(frozen=True)
class CriticalPath:
    """The chain of calls that takes longest; a graph takes at least as long, however much runs at once."""

    nodes: tuple[Node, ...]
    weight: float  # of the chain
    total: float  # of all calls

    @property
    def parallelism(self) -> float:
        """How many calls run at once on average, if nothing waits for anything but its inputs; 1 for a chain."""
        return self.total / self.weight if self.weight else 1.0


def critical_path(
    graph: Graph, weight: Mapping[str, float] | Callable[[Node], float] = lambda node: 1.0
) -> CriticalPath:
    """Find the critical path of a graph. `weight` gives the weight of a call: a dict by name of node, or a function.

    Weigh by the medians of a profile for seconds, by costs for operations; by default each call weighs one. Writes in
    place are not looked at: a read that has to wait for a write is only found if it also reads the result of the write.
    """
    weigh = weight if callable(weight) else (lambda node: weight.get(node.name, 0.0))
    best: dict[Node, float] = {}
    before: dict[Node, Node | None] = {}
    total = 0.0
    for node in graph.nodes:
        previous = max(node.all_input_nodes, key=best.__getitem__, default=None)
        own = weigh(node) if node.op in CALLABLE_NODE_OPS else 0.0
        total += own
        best[node] = own + (best[previous] if previous is not None else 0.0)
        before[node] = previous
    last = max(best, key=best.__getitem__, default=None)
    chain: list[Node] = []
    node_or_none = last
    while node_or_none is not None:
        if node_or_none.op in CALLABLE_NODE_OPS:
            chain.append(node_or_none)
        node_or_none = before[node_or_none]
    return CriticalPath(tuple(reversed(chain)), best[last] if last is not None else 0.0, total)
