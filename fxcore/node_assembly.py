"""Nodes put together from parts that are known to be right, at the end of a graph that nobody listens to."""

from __future__ import annotations

from typing import Any, Protocol

from fxcore.namespace import Namespace
from fxcore.node import Node
from fxcore.node_list import GAP


class GrowingGraph(Protocol):
    """What is asked of a graph that nodes are put together for."""

    _root: Node
    _len: int
    _graph_namespace: Namespace


def assemble(
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
