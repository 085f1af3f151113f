"""After which node is each value read for the last time?"""

from __future__ import annotations

from collections.abc import Iterable

from fxcore.node import Node


def values_freed_after(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Map each node to the values that nobody reads once it has run. `nodes` come in order of execution."""
    read_later: set[Node] = set()
    freed: dict[Node, list[Node]] = {}
    for node in reversed(list(nodes)):
        for value in node._input_nodes:
            if value not in read_later:
                read_later.add(value)
                freed.setdefault(node, []).append(value)
    return freed
