"""Reach, install and remove what a dotted path names below a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_MISSING = object()


def get_attribute(root: Any, path: str) -> Any:
    """Return what `path` names below `root`. Raises AttributeError naming the part that is missing."""
    found = root
    for depth, name in enumerate(atoms := path.split(".")):
        following = getattr(found, name, _MISSING)
        if following is _MISSING:
            place = ".".join(atoms[:depth]) or type(root).__name__
            raise AttributeError(f"{place!r} has no attribute {name!r} (looking for {path!r})")
        found = following
    return found


def has_attribute(root: Any, path: str) -> bool:
    """Tell whether `path` names something below `root`."""
    found = root
    for name in path.split("."):
        found = getattr(found, name, _MISSING)
        if found is _MISSING:
            return False
    return True


def set_attribute(root: nn.Module, path: str, value: Any) -> None:
    """Install `value` at `path` below `root`, with empty modules on the way; a plain tensor becomes a buffer."""
    *parents, name = path.split(".")
    module = root
    for parent in parents:
        module = _child(module, parent)
    _install(module, name, value)


def delete_attribute(root: Any, path: str) -> None:
    """Remove what `path` names below `root`. Raises AttributeError if a part is missing."""
    parent, _, name = path.rpartition(".")
    delattr(get_attribute(root, parent) if parent else root, name)


def copy_attribute(source: nn.Module, destination: nn.Module, path: str) -> None:
    """Install at `path` below `destination` the very object that is there below `source`.

    Nothing is done where a module on the way is already the source's own.
    """
    *parents, name = path.split(".")
    for parent in parents:
        theirs = getattr(source, parent)
        ours = getattr(destination, parent, None)
        if ours is theirs:
            return
        source, destination = theirs, _child(destination, parent)
    value = getattr(source, name)
    persistent = name not in getattr(source, "_non_persistent_buffers_set", ())
    _install(destination, name, value, persistent=persistent)


def _child(module: nn.Module, name: str) -> nn.Module:
    child = getattr(module, name, None)
    if child is None:
        child = nn.Module()
        setattr(module, name, child)
    return child


def _install(module: nn.Module, name: str, value: Any, *, persistent: bool = True) -> None:
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(name, value, persistent=persistent)
    else:
        setattr(module, name, value)
