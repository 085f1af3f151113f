"""Finding the nodes that one function or module of the source was decomposed into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes that one call in the source became."""

    nodes: list[Node]
    # The function or class of module that was called.
    source: Any
    # The nodes outside, except state, that the nodes read.
    input_nodes: list[Node] = field(default_factory=list)
    # The nodes that others read.
    output_nodes: list[Node] = field(default_factory=list)
    # The nodes that read state.
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return, for each function or class of module in `wanted_sources` that was called, the nodes of every call.

    The metadata of torch.export tells where a node comes from. With `filter_fn`, a call counts only if `filter_fn`
    accepts all of its nodes.
    """
    calls: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        origin = _origin(node, wanted_sources)
        if origin is not None:
            source, name = origin
            calls.setdefault(source, {}).setdefault(name, []).append(node)
    return {
        source: [
            _partition(nodes, source)
            for nodes in by_name.values()
            if filter_fn is None or all(filter_fn(node) for node in nodes)
        ]
        for source, by_name in calls.items()
    }


def _origin(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    """Return the wanted source of a node and the name of the call, or None for another source."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1][:2]
        return (source, name) if source in wanted else None
    torch_fn = node.meta.get("torch_fn")
    if torch_fn is not None:
        name, qualified = torch_fn
        function = qualified.split(".")[1]
        if function in wanted:
            return function, name
    return _origin_by_module(node, wanted) if node.op == "call_function" else None


def _origin_by_module(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    modules = node.meta.get("nn_module_stack")
    if not modules:
        return None
    path, kind = list(modules.values())[-1]
    source = next((source for source in wanted if _is_made_of(kind, source)), None)
    return None if source is None else (source, path)


def _is_made_of(kind: Any, source: Any) -> bool:
    """Return whether `source` stands for a module of class `kind`. `kind` may be the class's full name."""
    if not isinstance(source, type):
        return bool(kind == source)
    if isinstance(kind, type):
        return issubclass(kind, source)
    return bool(kind == f"{source.__module__}.{source.__qualname__}")


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    outputs, params = [], []
    for node in nodes:
        for value in node.args:
            if isinstance(value, Node) and value not in inside and value.op != "get_attr":
                inputs[value] = None
        if node.op == "get_attr":
            params.append(node)
        elif any(user not in inside for user in node.users):
            outputs.append(node)
    return SourcePartition(nodes, source, list(inputs), outputs, params)


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether a node of the second partition reads one of the first."""
    readers = set(subgraph2.nodes)
    return any(not readers.isdisjoint(node.users) for node in subgraph1.nodes)
