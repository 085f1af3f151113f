"""The longest chain of nodes that wait for each other, and the number of calls that could run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.passes.tools_common import CALLABLE_NODE_OPS


@dataclass(frozen=True)
class CriticalPath:
    """The slowest chain of calls. A graph takes at least its time, whatever runs at the same time."""

    nodes: tuple[Node, ...]
    weight: float  # of the chain
    total: float  # of all calls

    @property
    def parallelism(self) -> float:
        """The average number of calls that run at once if each waits for its inputs alone; 1 for a chain."""
        return self.total / self.weight if self.weight else 1.0


def critical_path(
    graph: Graph, weight: Mapping[str, float] | Callable[[Node], float] = lambda node: 1.0
) -> CriticalPath:
    """Find the critical path of a graph. `weight` gives the weight of a call: a dict by name of node, or a function.

    Use the medians of a profile for seconds, or costs for operations; by default each call weighs one. Writes in place
    are not followed: a read that waits for a write is found only if it also reads the result of the write.
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
