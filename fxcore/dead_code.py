"""Removing nodes that nobody reads and that do nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from fxcore.node import Node


class _Graph(Protocol):
    @property
    def nodes(self) -> Iterable[Node]: ...
    def erase_node(self, to_erase: Node) -> None: ...


def remove_unread(graph: _Graph, must_stay: Callable[[Node], bool]) -> int:
    """Erase every node without readers that `must_stay` does not keep; return how many went."""
    removed = 0
    # Backwards: erasing a node may leave its inputs unread, and we meet those next.
    for node in reversed(list(graph.nodes)):
        if not node.users and not must_stay(node):
            graph.erase_node(node)
            removed += 1
    return removed
