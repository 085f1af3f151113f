"""Where in the module hierarchy is a tensor that tracing met? Answered by identity, from tables made once a trace."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch.utils import _pytree as pytree

CONSTANT_ATTRIBUTE_TYPES = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)

_NAME_OF_CONSTANT: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "_tensor_constant"),
    ((torch.ScriptObject, FakeScriptObject), "_torchbind_obj"),
    (pytree.TreeSpec, "_tree_spec_constant"),
)

# What most attributes of a module are; no constant is of these types exactly.
_NEVER_CONSTANT = frozenset({dict, bool, int, float, str, type(None), list, tuple, set})


def constant_attributes(root: nn.Module) -> dict[Any, str]:
    """Return the path of every tensor or other constant that is a plain attribute of a module below `root`."""
    found: dict[Any, str] = {}
    pending = [("", root)]
    while pending:
        prefix, module = pending.pop()
        for name, value in vars(module).items():
            if type(value) not in _NEVER_CONSTANT and isinstance(value, CONSTANT_ATTRIBUTE_TYPES):
                found[value] = prefix + name
        pending += [(f"{prefix}{name}.", child) for name, child in module.named_children()]
    return found


def constant_prefix(value: Any) -> str:
    """Return how the attribute is named that keeps a constant which no module has."""
    return next(prefix for kinds, prefix in _NAME_OF_CONSTANT if isinstance(value, kinds))


class PathsByIdentity:
    """Paths of the parameters and buffers of a root, by the very object."""

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        # Tensors hash by identity, and as keys they stay alive: no other can take their place in memory.
        self._parameters = {value: path for path, value in root.named_parameters()}
        self._buffers = {value: path for path, value in root.named_buffers()}

    def parameter(self, value: nn.Parameter) -> str | None:
        """Return the first path of a parameter, also of one that was installed during the trace; None without one."""
        path = self._parameters.get(value)
        if path is None:
            path = next((name for name, candidate in self._root.named_parameters() if candidate is value), None)
            if path is not None:
                self._parameters[value] = path
        return path

    def buffer(self, value: torch.Tensor) -> str | None:
        """Return the first path of a tensor that was a buffer when the trace began; None without one."""
        return self._buffers.get(value)
