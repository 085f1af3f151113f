"""The last reader of each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fxcore.node import Node


def values_freed_after(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Map each node to the values that no later node reads. `nodes` come in order of execution."""
    nodes = list(nodes)
    freed = zip(nodes, values_freed_in_order(nodes), strict=True)
    pairs = [(node, [values] if isinstance(values, Node) else values) for node, values in freed if values is not None]
    return dict(reversed(pairs))


def values_freed_in_order(nodes: Sequence[Node]) -> list[Node | list[Node] | None]:
    """Return for each node the values that no later node reads: None, the single value, or a list of several."""
    read_later: set[Node] = set()
    freed: list[Node | list[Node] | None] = []
    for node in reversed(nodes):
        inputs = node._input_nodes
        if len(inputs) == 1:  # the frequent case; a list for each would burden the garbage collector
            (value,) = inputs
            if value in read_later:
                freed.append(None)
            else:
                read_later.add(value)
                freed.append(value)
            continue
        last_reads = [value for value in inputs if value not in read_later]
        read_later.update(last_reads)
        freed.append((last_reads if len(last_reads) > 1 else last_reads[0]) if last_reads else None)
    freed.reverse()
    return freed
