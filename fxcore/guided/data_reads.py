"""Values that follow from the contents of input tensors, as opposed to their shapes and to the model's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxcore.guided.arguments import drawn
from fxcore.guided.other_sizes import other_number, proxies_in
from fxcore.guided.proxies import ExampleProxy, ExampleTensor
from fxcore.node import Node
from fxcore.operators.effects import effects_of
from fxcore.operators.table import NO_FACTS
from fxcore.state.readings import is_array


class Origin(NamedTuple):
    """How far the contents of input tensors decide about a value.

    `is_data`: they decide about the value itself. `has_contents`: they decide about a tensor's contents. `other`: the
    value in other sizes, if they decide about a size of a tensor, or in a shape.
    """

    is_data: bool
    has_contents: bool
    other: Any = None


def origin_of(
    kind: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    value: Any,
    other_result: Callable[[str, list[ExampleProxy]], Any],
) -> Origin:
    """Return how far the contents of input tensors decide about the value of a call.

    `other_result` takes the name of the called operation and the proxies among the arguments, and returns the result in
    other sizes. The result is None if contents decide about no size.
    """
    if target is drawn:
        return Origin(True, True, other_number(value))
    proxies = proxies_in(args, kwargs)
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    facts = NO_FACTS if kind == "call_module" else effects_of(kind, target).facts
    of_data = any(proxy.is_data for proxy in proxies)
    contents = any(proxy.has_contents for proxy in proxies)
    if not isinstance(value, torch.Tensor):
        if is_array(value):  # the array has no value of another size to go by
            return Origin(of_data or any(proxy.other is not None for proxy in proxies), of_data or contents)
        if name != "len" and any(proxy.has_contents and is_array(proxy.example) for proxy in proxies):
            of_data = True
    if isinstance(value, torch.Tensor) or kind == "call_module" or value is None or _holds_tensors(value):
        has_contents = of_data or "random" in facts or (contents and "fills" not in facts)
        return Origin(False, has_contents, None if value is None else other_result(name, proxies))
    asks_shape = "asks_shape" in facts or "takes_part" in facts
    if "asks_type" in facts:
        return Origin(of_data, of_data, other_number(value) if of_data else None)
    if isinstance(value, (list, tuple)) and not of_data:  # a shape, or other numbers
        other = other_result(name, proxies)
        is_data = not asks_shape and type(value) is not torch.Size and contents and other is None
        return Origin(is_data, is_data, other)
    if not of_data and any(proxy.other is not None for proxy in proxies):
        other = other_result(name, proxies)
        of_data = other is not None or not asks_shape
    is_data = of_data or (not asks_shape and contents and any(isinstance(each, ExampleTensor) for each in proxies))
    return Origin(is_data, is_data, other_number(value) if is_data else None)


def is_free_of_effects(node: Node) -> bool:
    """Return whether a node that computes a number or a text changes nothing, so that it may go if nobody reads it."""
    if node.op not in ("call_method", "call_function"):
        return node.op == "get_attr"
    effects = effects_of(node.op, node.target)
    return not effects.writes and not effects.changes_global_state and set(effects.kinds) <= {"random"}


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (bool, int, float, torch.Size, torch.dtype, torch.device)):
        return False
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
