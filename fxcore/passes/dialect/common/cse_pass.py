"""Common subexpression elimination: a repeated computation is made once."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.nodes.shared_storage import SharedStorage, is_repeatable
from fxcore.operators.table import operator_table
from fxcore.passes.infra.pass_base import PassBase, PassResult
from fxcore.passes.infra.working_copy import check_graph_module, keep_hooks

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_BANNED = {
    getattr(torch.ops.aten, name.removeprefix("aten."))
    for name, facts in operator_table().items()
    if "cse_banned" in facts
}
inplace_ops = {packet for packet in _BANNED if packet.__name__.endswith("_")}
rand_ops = _BANNED - inplace_ops


def get_CSE_banned_ops() -> set[Any]:  # noqa: N802 - torch.fx's public name
    """Return the common ATen operators that must not be merged: random and in-place operators."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """Common subexpression elimination: of nodes with the same operation on the same values, the first stays.

    Calls of `banned_ops` stay, nodes with effects stay, and calls of unknown functions and modules stay. torch.fx's
    pass is for functional graphs. Here two calls also stay two if a value that they read is written between them, if
    their result is written, or if the graph returns both results.
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        """Keep every call of `banned_ops`, which are functions or packets of ATen operators."""
        self.banned_ops = banned_ops if banned_ops is not None else set()
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a new module of the smaller graph, or `graph_module` itself if nothing is computed twice.

        Raises PassArgumentError for anything but a graph module of fxcore.
        """
        check_graph_module(graph_module)
        graph = Graph()
        copies: dict[Node, Node] = {}
        kept: dict[Any, Node] = {}
        storage = SharedStorage(graph_module.graph.nodes, graph_module)
        for node in graph_module.graph.nodes:
            key = self._key(node, copies) if is_repeatable(node, graph_module) else None
            first = kept.get(key)
            if first is not None and _may_be_one(first, node, storage):
                copies[node] = copies[first]
                continue
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if key is not None:
                kept[key] = node
        if len(graph.nodes) == len(graph_module.graph.nodes):
            return PassResult(graph_module, False)
        graph.set_codegen(graph_module.graph._codegen)
        made = GraphModule(graph_module, graph)
        keep_hooks(made, graph_module)
        return PassResult(made, True)

    def _key(self, node: Node, copies: dict[Node, Node]) -> Any | None:
        """Return the key that equal nodes share; None for a node that must stay."""
        if getattr(node.target, "overloadpacket", node.target) in self.banned_ops:
            return None
        leaves, structure = pytree.tree_flatten((node.args, node.kwargs))
        values = [copies.get(leaf, leaf) if isinstance(leaf, Node) else leaf for leaf in leaves]
        key = (node.op, node.target, tuple(map(_leaf_key, values)), str(structure))
        try:
            hash(key)
        except TypeError:  # for example, an unhashable list in the attributes of a leaf
            return None
        return key


def _may_be_one(first: Node, node: Node, storage: SharedStorage) -> bool:
    """Return whether two equal calls may become one, because no reader can tell their memory or their age apart."""
    if any(storage.is_written_between(value, first, node) for value in node.all_input_nodes):
        return False
    are_returned = storage.is_returned(first) and storage.is_returned(node)
    return not (are_returned or storage.writers(first) or storage.writers(node))


def _leaf_key(leaf: Any) -> Any:
    # Unlike torch.fx: there `x + 1`, `x + 1.0` and `x + True` are the same, and so are `x * 0.0` and `x * -0.0`.
    if isinstance(leaf, slice):
        return slice, _leaf_key(leaf.start), _leaf_key(leaf.stop), _leaf_key(leaf.step)
    return type(leaf), leaf, repr(leaf) if isinstance(leaf, (float, complex)) else None
