"""Checks that a sequence of nodes is well-formed and that its references exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from torch import nn

from fxcore.errors import GraphError, NodeTargetError
from fxcore.node import OPCODES, Node
from fxcore.node_data.attribute_paths import attribute_of


def check(graph: Any, nodes: Iterable[Node], owning_module: nn.Module | None) -> None:
    """Raise GraphError (a RuntimeError) or NodeTargetError (a ValueError) for the first fault.

    Checks: ownership, opcodes, unique names, definition of every value before its use and, with an `owning_module`,
    kind and existence of the targets.
    """
    nodes = list(nodes)
    has_unique_names = len({node._name for node in nodes}) == len(nodes)
    names: set[str] = set()
    defined: set[Node] = set()
    for node in nodes:
        if node._op not in OPCODES or node.graph is not graph:
            _refuse_node(node)
        inputs = node._input_nodes
        if inputs and not defined.issuperset(inputs):
            value = next(value for value in node._input_nodes if value not in defined)
            raise GraphError(_explain_undefined(graph, value, node))
        defined.add(node)
        if not has_unique_names:
            _refuse_second(node, names)
    if owning_module is not None:
        _check_targets(nodes, owning_module)


def _refuse_second(node: Node, names: set[str]) -> None:
    """Raise if `names`, the names of the earlier nodes, has this node's name."""
    if node._name in names:
        raise GraphError(
            f"Node redefined name {node._name}! Two nodes of one graph have it; rename one, "
            "or let graph.create_node() choose names"
        )
    names.add(node._name)


def _refuse_node(node: Node) -> NoReturn:
    if node._op not in OPCODES:
        raise GraphError(
            f"Node {node._name} had unknown opcode {node._op}! It must be one of {', '.join(sorted(OPCODES))}"
        )
    raise GraphError(
        f"Node '{node._name}' does not belong to this Graph! Make it with this graph's methods or copy it with "
        "graph.node_copy()"
    )


def _explain_undefined(graph: Any, value: Node, reader: Node) -> str:
    if value.graph is not graph:
        return (
            f"Argument '{value._name}' of Node '{reader._name}' does not belong to this Graph, but was used as an "
            "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() "
            "to remap values"
        )
    if value._erased:
        return (
            f"Argument '{value._name}' of Node '{reader._name}' was used before it has been defined! It was erased "
            "from the graph while it still had a reader; replace its uses first with replace_all_uses_with()"
        )
    return (
        f"Argument '{value._name}' of Node '{reader._name}' was used before it has been defined! Please check that "
        f"Nodes in the graph are topologically ordered: '{value._name}' comes after '{reader._name}'; move one with "
        "Node.append() or Node.prepend(), or insert with graph.inserting_before()/inserting_after()"
    )


def _check_targets(nodes: list[Node], module: nn.Module) -> None:
    # Paths share their parents, and asking a module for a child is slow. Every path is therefore looked up once.
    known: dict[str, dict[str, Any]] = {"call_module": {}, "get_attr": {}}
    for node in nodes:
        op, target = node._op, node._target
        if op == "call_function":
            if not callable(target):
                _refuse_target(node, "Callable")
        elif not isinstance(target, str):
            _refuse_target(node, "str")
        elif op in known and target not in known[op]:
            _look_up(node, target, module, known[op])


def _refuse_target(node: Node, wanted: str) -> NoReturn:
    target: Any = node._target
    raise NodeTargetError(
        f"Node {node._name} target {target!r} has type {torch.typename(target)} but a {wanted} is expected"
    )


def _look_up(node: Node, path: str, module: nn.Module, known: dict[str, Any]) -> Any:
    """Return the object below `module` at `path`, the target of `node` or its beginning."""
    if path in known:
        return known[path]
    parent_path, dot, atom = path.rpartition(".")
    try:
        found = attribute_of(_look_up(node, parent_path, module, known) if dot else module, atom)
    except AttributeError:
        found = None
    place = parent_path or type(module).__name__
    if found is None:
        raise GraphError(
            f"Node {node._name} target {node._target} references nonexistent attribute {atom} of {place}; "
            "install it with add_submodule(), register_parameter() or register_buffer()"
        )
    if node._op == "call_module" and not isinstance(found, nn.Module):
        raise GraphError(
            f"Node {node._name} target {node._target} {atom} of {place} does not reference an nn.Module, so it "
            "cannot be called as one; read it with get_attr"
        )
    known[path] = found
    return found
