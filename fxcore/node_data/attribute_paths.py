"""Reach, install and remove what a dotted path names below a module."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

_MISSING = object()
_CONTAINERS = frozenset({dict, set, OrderedDict})


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
    copy_attributes(source, destination, (path,))


def copy_attributes(source: nn.Module, destination: nn.Module, paths: Iterable[str]) -> None:
    """Do what `copy_attribute` does for several paths, in their order, walking each way once."""
    # Where a path leads on both sides; None where the destination has the source's own module.
    places: dict[str, _Place | None] = {"": (source, destination)}
    for path in paths:
        parent, _, name = path.rpartition(".")
        place = places[parent] if parent in places else _find_place(parent, places)
        if place is None:
            continue
        theirs, ours = place
        value = attribute_of(theirs, name)
        if isinstance(value, nn.Module):
            _install_module(ours, name, value)
            places[path] = None
        else:
            persistent = name not in getattr(theirs, "_non_persistent_buffers_set", ())
            _install(ours, name, value, persistent=persistent)


_Place = tuple[Any, nn.Module]


def _find_place(path: str, places: dict[str, _Place | None]) -> _Place | None:
    if path not in places:
        parent, _, name = path.rpartition(".")
        above = _find_place(parent, places)
        places[path] = None if above is None else _step_down(above, name)
    return places[path]


def _step_down(place: _Place, name: str) -> _Place | None:
    theirs, ours = place[0], place[1]
    their_child = attribute_of(theirs, name)
    our_child = _attribute_or_none(ours, name)
    if our_child is their_child:
        return None
    if our_child is None:
        our_child = _empty_module()
        _install_module(ours, name, our_child)
    return their_child, our_child


def _attribute_or_none(module: nn.Module, name: str) -> Any:
    found = module._modules.get(name)
    # For a name that is nowhere, getattr would raise an AttributeError inside, which takes longer than looking.
    if found is None and (
        name in vars(module)
        or name in module._parameters
        or name in module._buffers
        or hasattr(type(module), name)
        or type(module).__getattr__ is not nn.Module.__getattr__
    ):
        found = getattr(module, name, None)
    return found


_MODULE_INIT = nn.Module.__init__


@functools.cache
def _empty_attributes() -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return the attributes of an empty module, and which of them are containers of which type."""
    attributes = vars(nn.Module())
    return attributes, [(name, type(value)) for name, value in attributes.items() if type(value) in _CONTAINERS]


def _empty_module() -> nn.Module:
    """Return what `nn.Module()` returns, in a third of the time."""
    if nn.Module.__init__ is not _MODULE_INIT:  # somebody replaced it and expects that it is called
        return nn.Module()
    module = nn.Module.__new__(nn.Module)
    attributes, containers = _empty_attributes()
    own = vars(module)
    own.update(attributes)
    for name, kind in containers:
        own[name] = kind()
    return module


def attribute_of(module: Any, name: str) -> Any:
    """Return an attribute of a module, or of anything else. Raises AttributeError if there is none."""
    # What nn.Module.__getattr__ would find last it asks for first: attributes of modules are mostly modules.
    children = getattr(module, "_modules", None)
    child = children.get(name) if isinstance(children, dict) else None  # a ScriptModule's is no dict
    return child if child is not None else getattr(module, name)


def _install_module(parent: nn.Module, name: str, child: nn.Module) -> None:
    if name in parent._parameters or name in parent._buffers or name in vars(parent):
        setattr(parent, name, child)
    else:
        parent._modules[name] = child


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
