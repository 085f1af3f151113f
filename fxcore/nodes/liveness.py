"""The last reader of each value."""

from __future__ import annotations

from collections.abc import Iterable

from fxcore.node import Node


def last_readers(nodes: Iterable[Node]) -> dict[Node, Node]:
    """Map each value to the last of `nodes` that reads it. `nodes` come in order of execution."""
    return {value: node for node in nodes for value in node._input_nodes}


def values_freed_after(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Map each node to the values that no later node reads. `nodes` come in order of execution."""
    nodes = list(nodes)
    last_reader = last_readers(nodes)
    freed: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        values = [value for value in node._input_nodes if last_reader[value] is node]
        if values:
            freed[node] = values
    return freed
