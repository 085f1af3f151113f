"""The place of a node in its graph: between two others, before some and after some."""

from __future__ import annotations

from typing import Any, Protocol

from typing_extensions import Self

from fxcore.arguments import Value
from fxcore.errors import GraphArgumentError


class NodeOwner(Protocol):
    """What a node asks of the graph that it is in."""

    @property
    def owning_module(self) -> Any: ...

    def before_change(self) -> None:
        """Hear that the graph is about to change."""

    def retarget(self, node: Any, op: str, target: Any) -> None:
        """Hear that a node does something else now than `op` on `target`."""

    def rename(self, node: Any, candidate: str) -> str:
        """Return a free name close to `candidate`, kept for the node."""

    def order_between(self, before: Any, after: Any) -> int:
        """Return an order label for a node that comes between two."""

    def is_impure(self, node: Any, impure_random: bool) -> bool:
        """Tell whether a node does more than compute its value."""


class LinkedNode(Value):
    """A member of the linked list that a graph is."""

    __slots__ = ("_erased", "_next", "_prev", "_sort_key", "graph")

    graph: Any
    _next: Self
    _prev: Self

    def __init__(self: Self, graph: NodeOwner) -> None:
        self.graph = graph
        self._prev = self._next = self
        self._sort_key = 0
        self._erased = False

    @property
    def next(self) -> Self:
        """The node after this one; after the last comes the list's root."""
        return self._next

    @property
    def prev(self) -> Self:
        """The node before this one; before the first comes the list's root."""
        return self._prev

    def prepend(self, x: Self) -> None:
        """Move `x`, a node of the same graph, to the place before this one."""
        graph = self.graph
        if x.graph is not graph:
            raise GraphArgumentError(
                f"Attempting to move a Node into a different Graph: {x!r} belongs to another graph than "
                f"{self!r}; copy it with graph.node_copy()"
            )
        if x is self:
            return
        graph.before_change()
        if x._next is not x:  # it is in the list
            x.unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        x._sort_key = graph.order_between(before, self)

    def append(self, x: Self) -> None:
        """Move `x`, a node of the same graph, to the place after this one."""
        if x is not self:
            self._next.prepend(x)

    def unlink(self) -> None:
        """Take the node out of its list; its own links stay, so that a walk that stands on it can go on."""
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    def __lt__(self, other: LinkedNode) -> bool:
        return self._sort_key < other._sort_key if isinstance(other, LinkedNode) else NotImplemented

    def __gt__(self, other: LinkedNode) -> bool:
        return self._sort_key > other._sort_key if isinstance(other, LinkedNode) else NotImplemented

    def __le__(self, other: LinkedNode) -> bool:
        return self._sort_key <= other._sort_key if isinstance(other, LinkedNode) else NotImplemented

    def __ge__(self, other: LinkedNode) -> bool:
        return self._sort_key >= other._sort_key if isinstance(other, LinkedNode) else NotImplemented
