"""Change of the targets of nodes, and the memory that values take."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxcore.errors import GraphError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node, Target, map_arg
from fxcore.passes.shape_prop import ShapeProp, is_tensor_metadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):  # noqa: N801 - torch.fx's public name
    """Bytes of a node's value, and of that value with the parameters of the called module."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Give `fx_module` a graph in which every node of one opcode and target has another opcode and target."""
    new_graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg(node.args, copies.__getitem__), map_arg(node.kwargs, copies.__getitem__)
            copies[node] = new_graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = new_graph.node_copy(node, copies.__getitem__)
    fx_module.graph = new_graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[torch.Tensor] | None = None) -> None:
    """Set `size_bytes` on every node but the output; run the graph on `args` first if they are given."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]  # nodes take attributes


def get_tensor_meta(node: Node) -> Any:
    """Return ShapeProp's note on `node`. Raises GraphError (a RuntimeError) without a note."""
    tensor_meta = node.meta.get("tensor_meta")
    if not tensor_meta:
        raise GraphError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run: "
            "ShapeProp(gm).propagate(*inputs). It notes none for values that hold no tensor"
        )
    return tensor_meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the bytes of all tensors in a node's value, and of that value with the called module's parameters.

    Parameters are counted in the dtype of the output.
    """
    leaves = pytree.tree_leaves(get_tensor_meta(node), is_leaf=is_tensor_metadata)
    tensors = list(filter(is_tensor_metadata, leaves))
    output_size = sum(meta.dtype.itemsize * meta.shape.numel() for meta in tensors)
    if node.op != "call_module" or not tensors:
        return size_bytes(output_size, output_size)
    parameters = fx_module.get_submodule(str(node.target)).parameters()
    state_size = tensors[0].dtype.itemsize * sum(parameter.numel() for parameter in parameters)
    return size_bytes(output_size, output_size + state_size)
