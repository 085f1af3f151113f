"""Copies of nodes for a new graph, made without the ways that edits of a graph go."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Protocol

from fxcore.arguments import PLAIN, map_values
from fxcore.namespace import Namespace
from fxcore.node import Node
from fxcore.node_list import GAP


class _NewGraph(Protocol):
    _root: Node
    _len: int
    _graph_namespace: Namespace


def append_copies(nodes: Iterable[Node], graph: _NewGraph, copies: dict[Any, Any]) -> Node | None:
    """Append copies of `nodes`, up to the output, to a graph that nobody listens to yet; return the original output.

    `copies` says what stands for a value in the copies, and learns those that are made here; nodes that it has
    already are not copied.
    """
    output = None
    root, namespace = graph._root, graph._graph_namespace
    last = root._prev
    for node in nodes:
        if node in copies:
            continue
        if node._op == "output":
            output = node
            break
        copied = _copy_of(node, graph, copies)
        copied._name = namespace.create_name(node._name, copied)
        copied._sort_key = last._sort_key + GAP
        copied._prev, last._next = last, copied
        copies[node] = last = copied
        graph._len += 1
    last._next, root._prev = root, last
    return output


def _copy_of(node: Node, graph: Any, copies: dict[Any, Any]) -> Node:
    copied = Node.__new__(Node)
    copied.graph = graph
    copied._erased = False
    copied._op = node._op
    copied._target = node._target
    copied._type = node._type
    copied._repr_fn = None
    meta = node._meta
    copied._meta = copy.copy(meta) if isinstance(meta, dict) else meta
    copied.users = {}
    copied._args = tuple(
        [
            copies[arg] if type(arg) is Node else arg if type(arg) in PLAIN else map_values(arg, copies.__getitem__)
            for arg in node._args
        ]
    )
    copied._kwargs = map_values(node._kwargs, copies.__getitem__) if node._kwargs else node._kwargs
    copied._input_nodes = {copies[value]: None for value in node._input_nodes}
    for value in copied._input_nodes:
        value.users[copied] = None
    return copied
