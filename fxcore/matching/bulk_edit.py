"""Edits of a graph of which nobody hears: many at once, without asking at each whether anybody does."""

from __future__ import annotations

import copy
from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.node_data.arguments import PLAIN, freeze, map_values
from fxcore.nodes.builder import make_node


def has_listeners(graph: Graph) -> bool:
    """Tell whether code that is not ours runs when a graph is edited."""
    owner = graph.owning_module
    hooks = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks")
    return type(graph) is not Graph or any(getattr(owner, name, None) for name in hooks)


def expect_edits(graph: Graph, count: int) -> None:
    """Prepare a graph without listeners for a number of copies and removals."""
    graph.before_change()
    if count > graph._len / _MANY:
        graph._index = None  # made anew when somebody asks; keeping it up to date would cost more


def insert_copy(graph: Graph, after: Node, node: Node, copies: dict[Node, Any]) -> Node:
    """Copy a node of another graph to the place behind one of this graph, and return the copy.

    `copies` says what stands for the values that the node reads. For a graph without listeners, after `expect_edits`.
    """
    inputs: dict[Node, None] = {}
    args = []
    for value in node._args:
        kind = type(value)
        if kind is Node:
            value = copies[value]
            if type(value) is Node:
                inputs[value] = None
            else:
                value = freeze(value, inputs)
        elif kind not in PLAIN:
            value = freeze(map_values(value, copies.__getitem__), inputs)
        args.append(value)
    kwargs = freeze(map_values(node._kwargs, copies.__getitem__), inputs) if node._kwargs else node._kwargs
    copied = make_node(graph, node._op, node._target, tuple(args), kwargs, inputs)
    copied._name = graph._graph_namespace.create_name(node._name, copied)
    copied._type = node._type
    meta = node._meta
    copied._meta = copy.copy(meta) if isinstance(meta, dict) else meta
    before = after._next
    copied._prev, copied._next = after, before
    after._next = before._prev = copied
    copied._sort_key = graph.order_between(after, before)
    if graph._index is not None:
        graph._index.insert(copied)
    graph._len += 1
    return copied


def rewrite(reader: Node, replaced: dict[Node, Any]) -> None:
    """Let a node read what `replaced` maps values to, which is not replaced itself.

    For a graph without listeners, after `expect_edits`.
    """
    # What is mapped is frozen, and stays so; and the order of reading is known.
    read = replaced.get
    reader._args = map_values(reader._args, lambda node: read(node, node))
    if reader._kwargs:
        reader._kwargs = map_values(reader._kwargs, lambda node: read(node, node))
    inputs: dict[Node, None] = {}
    for value in reader._input_nodes:
        # As ever when arguments are set: the reader moves to the end of every list that it is in.
        value.users.pop(reader, None)
        freeze(read(value, value), inputs)
    reader._input_nodes = inputs
    for value in inputs:
        value.users[reader] = None


def erase(graph: Graph, dead: dict[Node, None]) -> None:
    """Remove nodes of a graph that nobody but they themselves reads. Raises GraphError (a RuntimeError) if others do.

    For a graph without listeners, after `expect_edits`.
    """
    for node in dead:
        if not dead.keys() >= node.users.keys():
            graph.erase_node(node)  # which knows what to say
    index = graph._index
    alive = [node for node in dead if not node._erased]
    for node in alive:
        if index is not None:
            index.remove(node, node._op, node._target)
        before, after = node._prev, node._next
        before._next, after._prev = after, before
        node._erased = True
        for value in node._input_nodes:
            value.users.pop(node, None)
        node._input_nodes = {}
        node._args = tuple(
            [None if type(a) is Node else a if type(a) in PLAIN else map_values(a, _nothing) for a in node._args]
        )
        if node._kwargs:
            node._kwargs = map_values(node._kwargs, _nothing)
    graph._len -= len(alive)


def _nothing(node: Node) -> None:
    return None


# Edits of one node in so many.
_MANY = 8
