"""Taking a graph apart, so that its nodes need not wait for the garbage collector."""

from __future__ import annotations

from fxcore.graph import Graph


def take_apart(graph: Graph) -> None:
    """Cut the cycles in a graph that nobody uses any more: its memory is free as soon as the last name of it is gone.

    The graph and its nodes are of no use afterwards.
    """
    root = graph._root
    node = root._next
    while node is not root:
        following = node._next
        node.users.clear()
        del node._next, node._prev
        node = following
    root.users.clear()
    root._next = root._prev = root
    graph._len = 0
    graph._index = None
    graph._graph_namespace._name_of.clear()
