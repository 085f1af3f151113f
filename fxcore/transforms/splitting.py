"""Splitting a graph into consecutive parts: where an answer changes, or where a part has become large."""

from __future__ import annotations

from collections.abc import Callable

from fxcore.errors import PassArgumentError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.split_module import split_module

__all__ = ["split_by", "split_by_size"]


def split_by(gm: GraphModule, answer: Callable[[Node], object]) -> GraphModule:
    """Return a module that runs `gm` as `submod_0`, `submod_1`, ...: a new part begins where `answer` changes.

    `answer` gets every call, in order, and its results are compared. As parts are consecutive, everything happens in
    the order of `gm`.
    """
    numbers: dict[Node, int] = {}
    before: object = None
    for node in _calls(gm):
        now = answer(node)
        last = max(numbers.values(), default=-1)
        numbers[node] = last if numbers and now == before else last + 1
        before = now
    return _split(gm, numbers)


def split_by_size(gm: GraphModule, *, nodes: int | None = None, parameters: int | None = None) -> GraphModule:
    """Return a module that runs `gm` in parts of at most so many calls, or with at most so many parameters.

    A single call with more parameters is a part of its own. Raises PassArgumentError (a TypeError) if neither or both
    limits are given, or less than 1.
    """
    limit = nodes or parameters or 0
    if (nodes is None) == (parameters is None) or limit < 1:
        raise PassArgumentError("give one limit of at least 1: nodes= for calls, or parameters= for their elements")
    numbers: dict[Node, int] = {}
    seen: set[int] = set()
    number, size = 0, 0
    for node in _calls(gm):
        more = 1 if nodes is not None else _new_parameters(node, gm, seen)
        if more and size and size + more > limit:
            number, size = number + 1, 0
        numbers[node] = number
        size += more
    return _split(gm, numbers)


def _split(gm: GraphModule, numbers: dict[Node, int]) -> GraphModule:
    made = split_module(gm, gm, numbers.__getitem__, keep_original_order=True)
    # `split_module` makes a graph of flat arguments, as torch.fx does. Callers give the arguments of `gm`.
    made.graph.set_codegen(gm.graph._codegen)
    made.recompile()
    return made


def _calls(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if node.op.startswith("call_")]


def _new_parameters(node: Node, gm: GraphModule, seen: set[int]) -> int:
    """Count the elements of parameters that a call reads and no call before it."""
    owners = [get_attribute(gm, str(node.target))] if node.op == "call_module" else []
    found = [parameter for owner in owners for parameter in owner.parameters()]
    for value in node.all_input_nodes:
        if value.op == "get_attr" and hasattr(read := get_attribute(gm, str(value.target)), "numel"):
            found.append(read)
    fresh = {id(each): each.numel() for each in found if id(each) not in seen}
    seen.update(fresh)
    return sum(fresh.values())
