"""Removing nodes that have no users and no other effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch._ops import OpOverload, OpOverloadPacket

from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import only_writes_first_argument
from fxcore.operators.table import Facts, facts_of_function, facts_of_name, facts_of_operator, inplace_argument

_QUANTIZED_TYPES = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def may_alias(node: Node, module: Any) -> bool:
    """Tell whether the value of `node` may share memory with another value; True where that is not known.

    Paths are looked up in `module`.
    """
    if "out" in node.kwargs:
        return True
    facts = facts_of_call(node, module)
    if "non_aliasing" in facts:
        return _may_work_in_place(node, module)
    return not (_is_dequantize(node, module) and all(_is_quantized(value, module) for value in node.all_input_nodes))


def facts_of_call(node: Node, module: Any) -> Facts:
    """Return what the table knows of what `node` calls."""
    target = node.target
    if node.op == "call_method":
        return facts_of_name(str(target))
    if node.op == "call_function":
        is_overload = isinstance(target, (OpOverload, OpOverloadPacket))
        return facts_of_operator(target) if is_overload else facts_of_function(target)
    if node.op != "call_module" or module is None:
        return {}
    cls = type(_layer(module, str(target)))
    if cls.__module__.startswith("torch.nn.modules."):
        return facts_of_name(f"torch.nn.{cls.__name__}")
    if cls.__module__.startswith("torch.ao.nn."):
        return facts_of_name(f"torch.ao.nn.{cls.__name__}") or facts_of_name(f"torch.nn.{cls.__name__}")
    return {}


def _layer(module: Any, path: str) -> Any:
    try:
        return get_attribute(module, path)
    except AttributeError:
        return None


def _may_work_in_place(node: Node, module: Any) -> bool:
    if node.op == "call_module":
        return bool(getattr(_layer(module, str(node.target)), "inplace", False))
    inplace = inplace_argument(node.target) if node.op == "call_function" else None
    return inplace is not None and (len(node.args) > inplace[0] or node.kwargs.get("inplace", False) is not False)


def _is_dequantize(node: Node, module: Any) -> bool:
    if node.op == "call_module":
        layer = None if module is None else _layer(module, str(node.target))
        return type(layer).__module__.startswith("torch.ao.nn.") and type(layer).__name__ == "DeQuantize"
    return node.target == "dequantize" if node.op == "call_method" else node.target is torch.dequantize


def _is_quantized(value: Node, module: Any) -> bool:
    """Tell whether the value of a node is known to be of a quantized type, by its call or by its metadata.

    `dequantize` gives a new tensor for such a one only: a tensor of float32 is returned as it is.
    """
    known = value.meta.get("tensor_meta", value.meta.get("val"))
    return "quantizes" in facts_of_call(value, module) or getattr(known, "dtype", None) in _QUANTIZED_TYPES


class _Graph(Protocol):
    @property
    def nodes(self) -> Iterable[Node]: ...
    def erase_node(self, to_erase: Node) -> None: ...


def remove_unread(graph: _Graph, must_stay: Callable[[Node], bool]) -> int:
    """Erase every node without readers that `must_stay` does not keep; return how many were erased."""
    removed = 0
    # Backwards: erasing a node may leave its inputs unread, and we meet those next.
    for node in reversed(list(graph.nodes)):
        if not node.users and not must_stay(node):
            graph.erase_node(node)
            removed += 1
    return removed


def is_needed_unread(node: Node, module: Any) -> bool:
    """Tell whether a node without users must stay: it has an effect that may be noticed.

    Nobody notices what is written into a value that nothing else reads, such as `relu(conv(x), inplace=True)`.
    """
    return node.is_impure() and not _is_lost_write(node, module)


def _is_lost_write(node: Node, module: Any) -> bool:
    while only_writes_first_argument(node, module):
        value = node.args[0]
        if not isinstance(value, Node) or not all(_sees_nothing(user, node, module) for user in value.users):
            return False
        if not may_alias(value, module):
            return True
        if not value.is_impure():
            return _is_unseen_view(value, module)
        node = value  # written into as well: what matters is where the memory comes from
    return False


def _is_unseen_view(value: Node, module: Any) -> bool:
    """Tell whether a value is a view, at most, of one that nothing else reads and that is no view itself."""
    while "view" in facts_of_call(value, module):
        viewed = value.args[0] if value.args else None
        if not isinstance(viewed, Node) or len(viewed.users) != 1:
            return False
        if not may_alias(viewed, module):
            return True
        value = viewed
    return False


def _sees_nothing(user: Node, writer: Node, module: Any) -> bool:
    """Tell whether a reader of a value is `writer`, or another that only writes into it and that nobody reads."""
    return user is writer or (
        not user.users and user.args[:1] == writer.args[:1] and only_writes_first_argument(user, module)
    )
