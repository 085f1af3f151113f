"""The nodes of a graph in order: a linked list around a root, which code may edit while it walks the list.

New nodes, and copies of nodes for another graph, go to the end of the list in few steps.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from fxcore.node import GAP, Node, set_fields
from fxcore.node_data.arguments import map_values
from fxcore.node_data.namespace import name_parts

_new = Node.__new__


class NodeList:
    """A view of a graph's nodes. Nodes may be erased, inserted and moved during a walk."""

    __slots__ = ("_graph", "_reversed")

    def __init__(self, graph: Any, direction: str = "_next") -> None:
        assert direction in ("_next", "_prev"), direction
        self._graph = graph
        self._reversed = direction == "_prev"

    def __len__(self) -> int:
        return int(self._graph._len)

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        return walk_back(root) if self._reversed else walk(root)

    def __reversed__(self) -> Iterator[Node]:
        root = self._graph._root
        return walk(root) if self._reversed else walk_back(root)


def walk(root: Node) -> Iterator[Node]:
    """Yield the nodes of the list around `root` from first to last."""
    node = root._next
    while node is not root:
        if not node._erased:
            yield node
        node = node._next


def walk_back(root: Node) -> Iterator[Node]:
    """Yield the nodes of the list around `root` from last to first."""
    node = root._prev
    while node is not root:
        if not node._erased:
            yield node
        node = node._prev


def label_between(root: Node, before: Node, after: Node) -> int:
    """Return an order label for a node that was just linked in front of another, or into an empty list.

    If the labels leave no room, the labels around are changed, few at a time: n insertions at one place cost n log n
    (Bender et al., "Two Simplified Algorithms for Maintaining Order in a List", 2002).
    """
    high = after._sort_key
    low = before._sort_key if before is not root else high - 2 * GAP
    if high - low >= 2:
        return (low + high) // 2
    return _spread(root, before._next)


def _spread(root: Node, crowded: Node) -> int:
    """Relabel the shortest stretch around `crowded` that has room, and return the new label of `crowded`."""
    first = last = crowded
    count, room = 1, 1
    anchor = crowded._prev._sort_key  # never the root, because both ends of the list have room
    while True:
        room *= 2
        low, high = anchor - room, anchor + room
        while first._prev is not root and first._prev._sort_key >= low:
            first, count = first._prev, count + 1
        while last._next is not root and last._next._sort_key <= high:
            last, count = last._next, count + 1
        # A wider stretch must be emptier. Otherwise the next insertion would come back here.
        if count * count.bit_length() * 4 <= room:
            break
    step = (high - low) // (count + 1)
    node, label = first, low
    while True:
        label += step
        node._sort_key = label
        if node is last:
            return crowded._sort_key
        node = node._next


# New nodes.


def make_node(
    graph: Any,
    op: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: tuple[Node, ...],
    name: str = "",
) -> Node:
    """Return a node outside of any list. `args` and `kwargs` are immutable; `inputs` are the values in them, once."""
    return set_fields(_new(Node), graph, name, op, target, args, kwargs, inputs)


def link_last(root: Node, node: Node) -> None:
    """Link a node that is in no list to the end of the list around `root`."""
    last = root._prev
    node._sort_key = last._sort_key + GAP
    node._prev, node._next = last, root
    last._next = root._prev = node


def append_copies(nodes: Iterable[Node], graph: Any, copies: dict[Any, Any]) -> Node | None:
    """Append copies of `nodes`, up to the output, to a graph without hooks and index; return the original output.

    `copies` maps each value to the value that the copies read in its place. Nodes in it are not copied; the new copies
    are added to it.
    """
    root, namespace, copy_of = graph._root, graph._graph_namespace, copies.__getitem__
    output, originals = None, []
    for node in nodes:
        if node in copies:
            continue
        if node._op == "output":
            output = node
            break
        originals.append(node)
    # In an empty graph, copies nearly always keep their names. To take these one by one takes 1.3 times as long.
    keeps_names = namespace.take_all([node._name for node in originals])
    for node in originals:
        args, kwargs, inputs = node._args, node._kwargs, node._input_nodes
        if len(args) == 1 and type(args[0]) is Node and not kwargs:  # frequent; saves a tenth of the time
            args = inputs = (copies[args[0]],)
        else:
            args = map_values(args, copy_of)
            kwargs = map_values(kwargs, copy_of) if kwargs else kwargs
            inputs = (copies[inputs[0]],) if len(inputs) == 1 else tuple(dict.fromkeys(map(copy_of, inputs)))
        name = node._name if keeps_names else namespace.take(name_parts(node._name))
        copied = set_fields(_new(Node), graph, name, node._op, node._target, args, kwargs, inputs, root._prev)
        copies[node] = copied
        graph._len += 1
        copied._type = node._type
        if node._meta is not None:
            copied._meta = copied_meta(node)
    return output


def copied_meta(node: Node) -> Any:
    """Return a copy of a node's metadata in the node's internal form."""
    meta = node._meta
    return copy.copy(meta) if isinstance(meta, dict) else meta
