"""Does an operation surely answer with memory of its own, or may its value share memory with what it read?"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

from fxcore.dotted import get_attribute

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
