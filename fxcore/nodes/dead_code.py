"""Removing nodes that have no users and no other effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import only_writes_first_argument
from fxcore.operators.table import facts_of_function, facts_of_name, inplace_argument


def may_alias(node: Node, module: Any) -> bool:
    """Tell whether the value of `node` may share memory with another value; True where that is not known.

    Paths are looked up in `module`.
    """
    if "out" in node.kwargs:
        return True
    if node.op == "call_method":
        return "non_aliasing" not in facts_of_name(str(node.target))
    if node.op == "call_function":
        return "non_aliasing" not in facts_of_function(node.target) or _may_work_in_place(node)
    return node.op != "call_module" or module is None or _layer_may_alias(module, str(node.target))


def _may_work_in_place(node: Node) -> bool:
    inplace = inplace_argument(node.target)
    return inplace is not None and (len(node.args) > inplace[0] or node.kwargs.get("inplace", False) is not False)


def _layer_may_alias(module: Any, path: str) -> bool:
    try:
        layer = get_attribute(module, path)
    except AttributeError:
        return True
    cls = type(layer)
    is_of_torch = cls.__module__.startswith("torch.nn.modules.")
    is_known = is_of_torch and "non_aliasing" in facts_of_name(f"torch.nn.{cls.__name__}")
    return not is_known or bool(getattr(layer, "inplace", False))


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
            return False
        node = value  # written into as well: what matters is where the memory comes from
    return False


def _sees_nothing(user: Node, writer: Node, module: Any) -> bool:
    """Tell whether a reader of a value is `writer`, or another that only writes into it and that nobody reads."""
    return user is writer or (
        not user.users and user.args[:1] == writer.args[:1] and only_writes_first_argument(user, module)
    )
