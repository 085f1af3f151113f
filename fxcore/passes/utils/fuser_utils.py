"""Fusion of nodes of a graph into submodules."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence

import torch

from fxcore.errors import GraphArgumentError, GraphError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.passes.dependency_order import in_dependency_order
from fxcore.passes.part_graph import PartGraph
from fxcore.passes.utils.common import lift_subgraph_as_module

NodeList = list[Node]
NodeSet = set[Node]


def topo_sort(nodes: NodeList) -> NodeList:
    """Return `nodes` in an order that puts each node behind its inputs, as close to the given order as possible.

    Raises GraphArgumentError (an AssertionError) if nodes read one another in a circle.
    """
    positions = {node: position for position, node in enumerate(nodes)}
    unmet = {node: sum(value in positions for value in node.all_input_nodes) for node in nodes}
    found = in_dependency_order(
        unmet, lambda node: [user for user in node.users if user in unmet], lambda node, time: positions[node]
    )
    if len(found) < len(nodes):
        circle = ", ".join(node.name for node in nodes if unmet[node])
        raise GraphArgumentError(f"Input graph has cycles: these nodes read one another in a circle: {circle}")
    return found


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Move each node of `gm` behind its inputs, with as few moves as possible; return `gm`, recompiled."""
    return _reordered(gm, topo_sort(list(gm.graph.nodes)))


def _reordered(gm: GraphModule, ordered: list[Node]) -> GraphModule:
    if ordered != list(gm.graph.nodes):
        for before, node in itertools.pairwise(ordered):
            before.append(node)
    gm.recompile()
    return gm


# Checks and the arithmetic of sizes. Nodes that depend on their results must come later.
_EARLY = frozenset(
    {
        *(operator.add, operator.mul, operator.sub, operator.floordiv, operator.truediv, operator.mod),
        *(operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne),
        *(torch.ops.aten.sym_constrain_range.default, torch.ops.aten.sym_constrain_range_for_size.default),
        *(torch.ops.aten._assert_async.msg, torch.ops.aten._assert_scalar.default),
        torch.ops.aten.scalar_tensor.default,
    }
)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Move the nodes of `gm` into breadth-first order, each behind its inputs; return `gm`.

    Operators of Python and assertions come as early as they can. `stable_topological_sort` moves less. Raises
    GraphError (a RuntimeError) if nodes read one another in a circle.
    """
    unmet = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ordered = in_dependency_order(
        unmet, lambda node: node.users, lambda node, time: -time if node.target in _EARLY else time
    )
    if len(ordered) < len(unmet):
        circle = [node for node, count in unmet.items() if count]
        raise GraphError(f"Input graph has cycles, unable to add {circle}: these nodes read one another in a circle")
    return _reordered(gm, ordered)


__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "legalize_graph",
    "topo_sort",
    "validate_partition",
]


def validate_partition(partition: NodeList) -> bool:
    """Return whether `partition` can become one node: no value leaves it and comes back through other nodes."""
    inside = set(partition)
    waiting = [user for node in partition for user in node.users if user not in inside]
    visited: NodeSet = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in visited:
            visited.add(node)
            waiting.extend(node.users)
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: NodeList,
    module_name: str,
    partition_lookup_table: Mapping[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Copy `nodes`, which are sorted, into a graph module of its own; `gm` stays as it is.

    Returns the module, its input nodes and its output nodes in `gm`. The module returns one value or, if there are more
    or `always_return_tuple`, a tuple. Raises GraphArgumentError (an AssertionError) if the nodes are not in `gm`, or
    could not be one node.
    """
    for node in nodes:
        _check_belongs(node, gm)
    if not validate_partition(nodes):
        raise GraphArgumentError(
            "Invalid partition, found dependency cycles: a value leaves it and comes back by way of other nodes "
            f"({', '.join(node.name for node in nodes)}); add those nodes to it, or split it"
        )
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    part = PartGraph()
    for node in nodes:
        part.copy(node)
    outputs = tuple([node for node in nodes if any(user not in inside for user in node.users)])
    part.finish(outputs, always_tuple=always_return_tuple or not outputs)
    part.graph.lint()
    fused, _ = lift_subgraph_as_module(gm, part.graph, comp_name="", class_name=module_name)
    return fused, tuple(part.inputs_from_outside), outputs


def _check_belongs(node: Node, gm: GraphModule) -> None:
    if node.graph.owning_module is not gm:
        raise GraphArgumentError(f"{node} doesn't belong to passed in graph module {type(gm).__name__}")
    if node._erased:
        raise GraphArgumentError(f"{node} has been removed from owning graph; it cannot be fused")


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Call `sub_gm`, which `fuse_as_graphmodule` made, in the graph of `gm`, and let its values replace the old ones.

    The call goes after `insertion_point`, or the last of the old outputs. The old nodes stay; `erase_nodes` removes
    them. Raises GraphArgumentError (an AssertionError) if there is neither.
    """
    submodule_name = type(sub_gm).__name__
    gm.add_submodule(submodule_name, sub_gm)
    if insertion_point is None:
        insertion_point = next((node for node in reversed(gm.graph.nodes) if node in orig_outputs), None)
    if insertion_point is None:
        raise GraphArgumentError(
            "Cannot determine insertion point: no insertion_point provided and orig_outputs is empty. Pass the last "
            "partition node as insertion_point."
        )
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(submodule_name, args=orig_inputs)
    if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
    elif orig_outputs:
        with gm.graph.inserting_before(call.next):
            for index, output in enumerate(orig_outputs):
                item = gm.graph.call_function(operator.getitem, (call, index))
                output.replace_all_uses_with(item, propagate_meta=True)
        call.meta["val"] = tuple([output.meta.get("val") for output in orig_outputs])
    return gm


def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Erase `nodes`, which are sorted, from the graph of `gm`."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: Sequence[Mapping[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Replace every partition, given as a dict with the nodes as keys, by a call of a submodule `<prefix><number>`.

    `gm` is changed in place, sorted, checked and returned.
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
