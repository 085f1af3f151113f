"""Copies of nodes for a new graph, made without the ways that edits of a graph go."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from fxcore.arguments import PLAIN, map_values
from fxcore.node import Node
from fxcore.node_assembly import GrowingGraph, append, assemble


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
        copied = assemble(graph, node._op, node._target, (value,), kwargs, {value: None})
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
        copied = assemble(graph, node._op, node._target, args, kwargs, inputs)
    copied._type = node._type
    meta = node._meta
    copied._meta = copy.copy(meta) if isinstance(meta, dict) else meta
    return copied
