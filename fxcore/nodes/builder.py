"""Copies of nodes for a new graph, made without the ways that edits of a graph go."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Protocol

from fxcore.node import Node
from fxcore.node_data.arguments import PLAIN, map_values
from fxcore.node_data.namespace import Namespace
from fxcore.nodes.node_list import GAP


class GrowingGraph(Protocol):
    """What is asked of a graph that nodes are put together for."""

    _root: Node
    _len: int
    _graph_namespace: Namespace


def make_node(
    graph: Any, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: dict[Node, None]
) -> Node:
    """Return a node without a name and a place; `args` and `kwargs` are immutable, and `inputs` the values in them."""
    node = Node.__new__(Node)
    node.graph = graph
    node._erased = False
    node._op = op
    node._target = target
    node._args = args
    node._kwargs = kwargs
    node._input_nodes = inputs
    node._type = None
    node._meta = None
    node._repr_fn = None
    node.users = {}
    for value in inputs:
        value.users[node] = None
    return node


def append(graph: GrowingGraph, node: Node, candidate: str) -> str:
    """Put a node at the end of a graph, under a name close to `candidate`, which is returned."""
    node._name = name = graph._graph_namespace.create_name(candidate, node)
    root = graph._root
    last = root._prev
    node._sort_key = last._sort_key + GAP
    node._prev, node._next = last, root
    last._next = root._prev = node
    graph._len += 1
    return name


def append_copies(nodes: Iterable[Node], graph: GrowingGraph, copies: dict[Any, Any]) -> Node | None:
    """Append copies of `nodes`, up to the output, to a graph that nobody listens to yet; return the original output.

    `copies` says what stands for a value in the copies, and learns those that are made here; nodes that it has
    already are not copied.
    """
    output = None
    for node in nodes:
        if node in copies:
            continue
        if node._op == "output":
            output = node
            break
        copies[node] = copied = _copy_of(node, graph, copies)
        append(graph, copied, node._name)
    return output


def _copy_of(node: Node, graph: Any, copies: dict[Any, Any]) -> Node:
    args, kwargs = node._args, node._kwargs
    if len(args) == 1 and type(args[0]) is Node and not kwargs:  # as most: no list to go through
        value = copies[args[0]]
        copied = make_node(graph, node._op, node._target, (value,), kwargs, {value: None})
    else:
        args = tuple(
            [
                copies[arg] if type(arg) is Node else arg if type(arg) in PLAIN else map_values(arg, copies.__getitem__)
                for arg in args
            ]
        )
        if kwargs:
            kwargs = map_values(kwargs, copies.__getitem__)
        inputs = {copies[value]: None for value in node._input_nodes}
        copied = make_node(graph, node._op, node._target, args, kwargs, inputs)
    copied._type = node._type
    meta = node._meta
    copied._meta = copy.copy(meta) if isinstance(meta, dict) else meta
    return copied
