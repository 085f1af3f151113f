"""Construction of nodes inside fxcore, and copies of nodes for a new graph."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from fxcore.node import Node, set_fields
from fxcore.node_data.arguments import map_values
from fxcore.nodes.node_list import GAP


def make_node(
    graph: Any,
    op: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: dict[Node, None],
    name: str = "",
) -> Node:
    """Return a node outside of any list. `args` and `kwargs` are immutable; `inputs` are the values in them."""
    node = Node.__new__(Node)
    set_fields(node, graph, name, op, target, args, kwargs, inputs)
    return node


def append(graph: Any, node: Node, candidate: str) -> str:
    """Put a node at the end of a graph, under a name close to `candidate`; return the name."""
    node._name = name = graph._graph_namespace.create_name(candidate, node)
    root = graph._root
    last = root._prev
    node._sort_key = last._sort_key + GAP
    node._prev, node._next = last, root
    last._next = root._prev = node
    graph._len += 1
    return str(name)


def append_copies(nodes: Iterable[Node], graph: Any, copies: dict[Any, Any]) -> Node | None:
    """Append copies of `nodes`, up to the output, to a graph without hooks and index; return the original output.

    `copies` maps each value to the value that the copies read in its place. Nodes in it are not copied; the new copies
    are added to it.
    """
    for node in nodes:
        if node in copies:
            continue
        if node._op == "output":
            return node
        args, kwargs = node._args, node._kwargs
        if len(args) == 1 and type(args[0]) is Node and not kwargs:  # frequent; saves a tenth of the time
            value = copies[args[0]]
            args, inputs = (value,), {value: None}
        else:
            args = map_values(args, copies.__getitem__)
            kwargs = map_values(kwargs, copies.__getitem__) if kwargs else kwargs
            inputs = {copies[value]: None for value in node._input_nodes}
        copies[node] = copied = make_node(graph, node._op, node._target, args, kwargs, inputs)
        copied._type = node._type
        copied._meta = copied_meta(node)
        append(graph, copied, node._name)
    return None


def copied_meta(node: Node) -> Any:
    """Return a copy of a node's metadata in the node's internal form."""
    meta = node._meta
    return copy.copy(meta) if isinstance(meta, dict) else meta
