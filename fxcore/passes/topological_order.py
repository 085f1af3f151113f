"""Bringing nodes into an order in which each comes after what it reads."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

from fxcore.errors import GraphArgumentError
from fxcore.graph_module import GraphModule
from fxcore.node import Node


def sorted_topologically(nodes: Iterable[Node]) -> list[Node]:
    """Return `nodes` so that each comes after those it reads; the given order stays where that allows it.

    Raises GraphArgumentError (an AssertionError) if nodes read one another in a circle.
    """
    nodes = list(nodes)
    positions = {node: position for position, node in enumerate(nodes)}
    unmet = {node: sum(value in positions for value in node.all_input_nodes) for node in nodes}
    ready = [positions[node] for node in nodes if unmet[node] == 0]  # rising, so it is a heap already
    found: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        found.append(node)
        for user in node.users:
            if user in unmet:
                unmet[user] -= 1
                if unmet[user] == 0:
                    heapq.heappush(ready, positions[user])
    if len(found) < len(nodes):
        circle = ", ".join(node.name for node in nodes if unmet[node])
        raise GraphArgumentError(f"Input graph has cycles: these nodes read one another in a circle: {circle}")
    return found


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Move the nodes of `gm` so that each comes after those it reads, as little as needed; return `gm`, recompiled."""
    nodes = list(gm.graph.nodes)
    ordered = sorted_topologically(nodes)
    if ordered != nodes:
        for before, node in itertools.pairwise(ordered):
            before.append(node)
    gm.recompile()
    return gm
