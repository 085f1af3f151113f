"""After which node is each value read for the last time?"""

from __future__ import annotations

from collections.abc import Iterable

from fxcore.node import Node


def values_freed_after(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Map each node to the values that nobody reads once it has run. `nodes` come in order of execution."""
    read_later: set[Node] = set()
    freed: dict[Node, list[Node]] = {}
    for node in reversed(nodes if isinstance(nodes, list) else list(nodes)):
        inputs = node._input_nodes
        if len(inputs) == 1:  # as most: no list to go through
            (value,) = inputs
            if value not in read_later:
                read_later.add(value)
                freed[node] = [value]
            continue
        last_reads = [value for value in inputs if value not in read_later]
        if last_reads:
            read_later.update(last_reads)
            freed[node] = last_reads
    return freed
