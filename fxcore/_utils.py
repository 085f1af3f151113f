"""Queries of nodes that libraries import from torch.fx's private file of this name. Here they promise nothing."""

from __future__ import annotations

from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node


def first_call_function_nn_module_stack(graph: Graph) -> dict[str, Any] | None:
    """Return the module stack of the first function call that has one; None without one."""
    stacks = (node.meta["nn_module_stack"] for node in graph.nodes if _is_call_in_module(node))
    return next(stacks, None)


def _is_call_in_module(node: Node) -> bool:
    return node.op == "call_function" and "nn_module_stack" in node.meta


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """Return the last `num_nodes` lines of the graph up to `node`, in the order of the graph."""
    lines: list[str] = []
    for _ in range(num_nodes):
        lines.insert(0, str(node.format_node()))
        if node.op == "root":
            break
        node = node.prev
    return "\n".join(lines)
