"""Removing nodes that nobody reads and that do nothing else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import only_writes_first_argument

# Of layers and functions that compute a new tensor whatever they are given. Not here: views, and those that sometimes
# hand back what they were given (dropout in eval mode, identity, contiguous, to, flatten).
_LAYERS: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm, nn.Embedding),
)
_TENSOR_METHODS = frozenset({"clone", "new_zeros", "new_ones", "new_empty", "new_full", "matmul", "mm", "bmm"})
_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset(
    {
        *(
            functional.linear,
            functional.conv1d,
            functional.conv2d,
            functional.conv3d,
            functional.batch_norm,
            functional.layer_norm,
            functional.group_norm,
            functional.embedding,
        ),
        *(functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d),
        *(torch.clone, torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.add, torch.sub, torch.mul, torch.div),
        *(torch.zeros, torch.ones, torch.empty, torch.full, torch.zeros_like, torch.ones_like, torch.empty_like),
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.neg),
    }
)


class _Node(Protocol):
    @property
    def op(self) -> str: ...
    @property
    def target(self) -> Any: ...
    @property
    def kwargs(self) -> dict[str, Any]: ...


def is_fresh(node: _Node, module: Any) -> bool:
    """Tell whether the value of `node` surely shares no memory with any other value.

    False where that is not known. Paths are looked up in `module`.
    """
    if "out" in node.kwargs:
        return False
    if node.op == "call_function":
        return _is_fresh_function(node.target)
    if node.op == "call_method":
        return node.target in _TENSOR_METHODS
    return node.op == "call_module" and module is not None and _is_fresh_layer(module, node.target)


def _is_fresh_function(function: Any) -> bool:
    try:
        return function in _FUNCTIONS
    except TypeError:  # not hashable, so none of ours
        return False


def _is_fresh_layer(module: Any, path: str) -> bool:
    try:
        return type(get_attribute(module, path)) in _LAYERS
    except AttributeError:
        return False


class _Graph(Protocol):
    @property
    def nodes(self) -> Iterable[Node]: ...
    def erase_node(self, to_erase: Node) -> None: ...


def remove_unread(graph: _Graph, must_stay: Callable[[Node], bool]) -> int:
    """Erase every node without readers that `must_stay` does not keep; return how many went."""
    removed = 0
    # Backwards: erasing a node may leave its inputs unread, and we meet those next.
    for node in reversed(list(graph.nodes)):
        if not node.users and not must_stay(node):
            graph.erase_node(node)
            removed += 1
    return removed


def is_needed_unread(node: Node, module: Any) -> bool:
    """Tell whether a node that nobody reads must stay: it does more than compute, and somebody may notice.

    Nobody notices what is written into a value that nothing else reads, such as `relu(conv(x), inplace=True)`.
    """
    return node.is_impure() and not _is_lost_write(node, module)


def _is_lost_write(node: Node, module: Any) -> bool:
    while only_writes_first_argument(node, module):
        value = node.args[0]
        if not isinstance(value, Node) or not all(_sees_nothing(user, node, module) for user in value.users):
            return False
        if is_fresh(value, module):
            return True
        if not value.is_impure():
            return False
        node = value  # written into as well: what matters is where the memory comes from
    return False


def _sees_nothing(user: Node, writer: Node, module: Any) -> bool:
    """Tell whether a reader of a value is `writer`, or an earlier one of its kind whose own value nobody reads."""
    return user is writer or (
        not user.users and user.args[:1] == writer.args[:1] and only_writes_first_argument(user, module)
    )
