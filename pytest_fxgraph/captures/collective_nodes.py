"""Nodes that call collectives or wait for them: name, arguments, group, reduction and tensors of a node."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.utils import _pytree as pytree

import fxcore
from fxcore.node_data.distributed_types import is_process_group, is_reduction
from fxcore.operators.effects import effects_of
from fxcore.operators.kinds import is_packet, overloads_of, schema_of
from fxcore.operators.table import GROUP_ARGUMENTS
from pytest_fxgraph.captures.collective_trace import REDUCTION
from pytest_fxgraph.document.collective_names import collective_kind


def kind_of(node: fxcore.Node) -> str | None:
    """Return which collective a node calls; None for any other node, and for the wait for a collective."""
    if node.op != "call_function" or "collective" not in effects_of(node.op, node.target).kinds:
        return None
    return collective_kind(name_of_call(node.target))


def is_wait(node: fxcore.Node) -> bool:
    """Return whether a node waits for the end of a collective."""
    name = node.target if node.op == "call_method" else name_of_call(node.target)
    return node.op in ("call_function", "call_method") and name in ("wait", "wait_tensor")


def arguments_of(node: fxcore.Node) -> dict[str, Any]:
    """Return the arguments of a call by name; by number where the function does not tell its names."""
    schema = schema_of_call(node.target)
    if schema is not None:
        names = [argument.name for argument in schema.arguments]
        return {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    with suppress(TypeError, ValueError):  # `apply` of an autograd function: since torch 2.14, it is written in C
        signature = inspect.signature(node.target)
        if not any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
            return dict(signature.bind_partial(*node.args, **node.kwargs).arguments)
    return {**{str(place): value for place, value in enumerate(node.args)}, **node.kwargs}


def group_argument(node: fxcore.Node) -> Any:
    """Return the group of a collective as its node names it: torch's name, a group, or the node of a wrapped group."""
    arguments = arguments_of(node)
    for name in (*GROUP_ARGUMENTS, "group"):
        if name in arguments:
            return arguments[name]
    return next((value for value in arguments.values() if is_process_group(value)), None)


def name_of_group(owner: fxcore.GraphModule, given: Any) -> str | None:
    """Return torch's name of a group that a node names; None stands for the whole world."""
    if isinstance(given, fxcore.Node):
        given = getattr(owner, str(given.target), None) if given.op == "get_attr" else None
    if isinstance(given, torch.ScriptObject):
        given = torch.distributed.ProcessGroup.unbox(given)
    name = given if isinstance(given, str) else getattr(given, "group_name", None)
    return None if name is None else str(name)


def reduction_of(node: fxcore.Node, kind: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the reduction of a collective: "sum", "avg"; None if nothing is reduced, or torch does not say it."""
    if kind not in ("all_reduce", "reduce_scatter", "reduce"):
        return None
    # A capture by make_fx notes it at the call, and at the object of C++ that a pass may hand to a call of its own.
    for source in (node, *(each for each in node.all_input_nodes if each.op == "get_attr")):
        if REDUCTION in source.meta:
            return str(source.meta[REDUCTION])
    for name in ("reduce_op", "op", "reduceOp"):
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    given: Any = next((value for value in arguments.values() if is_reduction(value)), None)
    if given is not None:
        return str(given.name).lower()
    # The functions of torch.distributed sum if they are not told otherwise.
    return "sum" if schema_of_call(node.target) is None else None


def tensors_of(node: fxcore.Node) -> Iterator[torch.Tensor]:
    """Yield the tensors of a node's recorded value."""
    value = node.meta.get("val", node.meta.get("example_value"))
    yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of all elements."""
    return sum(int(tensor.numel()) * tensor.dtype.itemsize for tensor in tensors)


def schema_of_call(target: Any) -> Any:
    """Return the schema of an operator, of a packet the first overload's; None for other functions."""
    return schema_of(overloads_of(target)[0] if is_packet(target) else target)


def name_of_call(target: Any) -> str:
    """Return the last name of an operator or a function, without underscores before it."""
    owner = getattr(target, "__self__", None)
    name = getattr(target, "_opname", None) or getattr(target, "__name__", "")
    if name == "apply" and isinstance(owner, type):  # of an autograd function
        name = owner.__name__
    return str(name).split(".")[0].lstrip("_")
