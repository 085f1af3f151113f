"""The tensors that a module holds: parameters, buffers and plain attributes, of all modules below it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pytest_fxgraph.equivalence.state.storage import has_storage, storage_of


class StateTensor(NamedTuple):
    """One tensor of a module."""

    name: str  # its path: "conv.weight"
    kind: str  # "parameter", "buffer", "attribute"
    tensor: torch.Tensor

    @property
    def label(self) -> str:
        """Return its name in messages: "parameter conv.weight"."""
        return f"{self.kind} {self.name}"


class ModuleState:
    """The tensors that a module, and all modules below it, hold at one time."""

    def __init__(self, root: object) -> None:
        """List the tensors of `root`, none if it is no module; TypeError if a lazy module has no shapes yet."""
        self.tensors = _tensors_of(root)

    @cached_property
    def by_storage(self) -> Mapping[int, list[StateTensor]]:
        """Group the tensors by their storage, as `storage_of` gives it."""
        found: dict[int, list[StateTensor]] = {}
        for state in self.tensors:
            if has_storage(state.tensor):
                found.setdefault(storage_of(state.tensor), []).append(state)
        return found


def modules_by_path(root: object) -> list[tuple[str, nn.Module]]:
    """List a module and all below it under every path that leads to them; nothing if `root` is no module."""
    found: list[tuple[str, nn.Module]] = []
    if isinstance(root, nn.Module):
        _list_modules("", root, found)
    return found


def _list_modules(path: str, module: nn.Module, found: list[tuple[str, nn.Module]]) -> None:
    found.append((path, module))
    for name, child in module._modules.items():
        if child is not None:
            _list_modules(f"{path}.{name}" if path else name, child, found)


# Attributes that every module has, none of them a tensor.
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
                        raise TypeError(_missing_shape_message(name, module))
                    found.append(StateTensor(prefix + name, kind, value))
    return found


def _missing_shape_message(name: str, module: nn.Module) -> str:
    return (
        f"cannot compare eager and graph: {name!r} of a {type(module).__name__} has no shape before the first call, "
        "and that call would change the model; call the model once before the check"
    )
