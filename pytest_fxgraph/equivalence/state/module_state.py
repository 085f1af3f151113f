"""The tensors that a module holds: parameters, buffers and plain attributes, of all modules below it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pytest_fxgraph.equivalence.aliasing import has_storage, storage_of


class StateTensor(NamedTuple):
    """One tensor of a module, by the name under which users know it."""

    name: str  # "conv.weight"
    kind: str  # "parameter", "buffer", "attribute"
    tensor: torch.Tensor

    @property
    def words(self) -> str:
        """Name it for a message."""
        return f"{self.kind} {self.name}"


class ModuleState:
    """The tensors of a module at one time."""

    def __init__(self, root: object) -> None:
        self.tensors = _tensors_of(root)

    @cached_property
    def by_storage(self) -> Mapping[int, list[StateTensor]]:
        """Group the tensors by the storage that they look at."""
        found: dict[int, list[StateTensor]] = {}
        for state in self.tensors:
            if has_storage(state.tensor):
                found.setdefault(storage_of(state.tensor), []).append(state)
        return found


def modules_by_path(root: object) -> list[tuple[str, nn.Module]]:
    """List a module and all below it, each under every path that leads to it; nothing for what is no module."""
    found: list[tuple[str, nn.Module]] = []
    if isinstance(root, nn.Module):
        _list_modules("", root, found)
    return found


def _list_modules(path: str, module: nn.Module, found: list[tuple[str, nn.Module]]) -> None:
    found.append((path, module))
    for name, child in module._modules.items():
        if child is not None:
            _list_modules(f"{path}.{name}" if path else name, child, found)


# What every module has, and what never is a tensor.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _tensors_of(root: object) -> list[StateTensor]:
    found: list[StateTensor] = []
    for path, module in modules_by_path(root):
        prefix = f"{path}." if path else ""
        own = {name: value for name, value in module.__dict__.items() if name not in _OF_EVERY_MODULE}
        for kind, entries in (("parameter", module._parameters), ("buffer", module._buffers), ("attribute", own)):
            for name, value in entries.items():
                if isinstance(value, torch.Tensor):
                    if is_lazy(value):
                        raise TypeError(_words_on_missing_shape(name, module))
                    found.append(StateTensor(prefix + name, kind, value))
    return found


def _words_on_missing_shape(name: str, module: nn.Module) -> str:
    return (
        f"cannot compare eager and graph: {name!r} of a {type(module).__name__} has no shape before the first call, "
        "and that call would change the model; call the model once before the check"
    )
