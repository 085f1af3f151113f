"""Removal of nodes without users and without another effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from fxcore.node import Node
from fxcore.node_data.purity import called_module, effects_of_node, only_writes_first_argument

_QUANTIZED_TYPES = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def may_alias(node: Node, module: Any) -> bool:
    """Return whether the value of `node` may share memory with another value; True where that is unknown.

    Paths are looked up in `module`.
    """
    if "out" in node.kwargs:
        return True
    effects = effects_of_node(node, module)
    if "non_aliasing" in effects.facts:
        return bool(effects.writes) if node.op == "call_module" else effects.works_in_place(node.args, node.kwargs)
    return not (_is_dequantize(node, module) and all(_is_quantized(value, module) for value in node.all_input_nodes))


def _is_dequantize(node: Node, module: Any) -> bool:
    if node.op == "call_module":
        layer = called_module(node, module)
        return type(layer).__module__.startswith("torch.ao.nn.") and type(layer).__name__ == "DeQuantize"
    return node.target == "dequantize" if node.op == "call_method" else node.target is torch.dequantize


def _is_quantized(value: Node, module: Any) -> bool:
    """Return whether a node's call or metadata shows that its value has a quantized type.

    `dequantize` makes a new tensor from a quantized one. It returns a tensor of float32 unchanged.
    """
    known = value.meta.get("tensor_meta", value.meta.get("val"))
    is_made_quantized = "quantizes" in effects_of_node(value, module).facts
    return is_made_quantized or getattr(known, "dtype", None) in _QUANTIZED_TYPES


class _Graph(Protocol):
    @property
    def nodes(self) -> Iterable[Node]: ...
    def erase_node(self, to_erase: Node) -> None: ...


def remove_unread(graph: _Graph, must_stay: Callable[[Node], bool]) -> int:
    """Erase every node without readers for which `must_stay` answers False; return the number of erased nodes."""
    removed = 0
    # Backwards: erasing a node may leave its inputs unread, and the loop meets those next.
    for node in reversed(list(graph.nodes)):
        if not node.users and not must_stay(node):
            graph.erase_node(node)
            removed += 1
    return removed


def is_needed_unread(node: Node, module: Any) -> bool:
    """Return whether a node without users must stay, because its effect may be noticed.

    A write into a value without another reader is never noticed: `relu(conv(x), inplace=True)`.
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
        node = value  # this node writes into the value too, so the loop asks for the origin of the memory
    return False


def _is_unseen_view(value: Node, module: Any) -> bool:
    """Return whether a value is at most a view of memory that nothing else reads."""
    while "view" in effects_of_node(value, module).facts:
        viewed = value.args[0] if value.args else None
        if not isinstance(viewed, Node) or len(viewed.users) != 1:
            return False
        if not may_alias(viewed, module):
            return True
        value = viewed
    return False


def _sees_nothing(user: Node, writer: Node, module: Any) -> bool:
    """Return whether a reader is `writer` itself, or an unread node that only writes into the same value."""
    return user is writer or (
        not user.users and user.args[:1] == writer.args[:1] and only_writes_first_argument(user, module)
    )
