"""Reading, installing and removing the object at a dotted path below a module."""

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
    """Return the object at `path` below `root`. Raises AttributeError with the name of the missing part."""
    found = root
    for depth, name in enumerate(atoms := path.split(".")):
        following = getattr(found, name, _MISSING)
        if following is _MISSING:
            place = ".".join(atoms[:depth]) or type(root).__name__
            raise AttributeError(f"{place!r} has no attribute {name!r} (looking for {path!r})")
        found = following
    return found


def has_attribute(root: Any, path: str) -> bool:
    """Return whether there is an object at `path` below `root`."""
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
        module = child_module(module, parent)
    _install(module, name, value)


def delete_attribute(root: Any, path: str) -> None:
    """Remove the object at `path` below `root`. Raises AttributeError if a part is missing."""
    parent, _, name = path.rpartition(".")
    delattr(get_attribute(root, parent) if parent else root, name)


def copy_attribute(source: nn.Module, destination: nn.Module, path: str) -> None:
    """Install the object at `path` below `source` at the same path below `destination`, without a copy.

    Do nothing if a module on the way already belongs to both.
    """
    copy_attributes(source, destination, (path,))


def copy_attributes(source: nn.Module, destination: nn.Module, paths: Iterable[str]) -> None:
    """Call `copy_attribute` for several paths, in their order, and walk each way once."""
    # The objects at a path on both sides; None if the destination has the source's own module there.
    places: dict[str, _Place | None] = {"": _place(source, destination)}
    for path in paths:
        parent, _, name = path.rpartition(".")
        place = places[parent] if parent in places else _find_place(parent, places)
        if place is None:
            continue
        theirs, ours, children, own = place
        value = children.get(name)
        if value is None:
            value = getattr(theirs, name)
        if isinstance(value, nn.Module):
            if own is None:
                _install_module(ours, name, value)
            else:
                own["_modules"][name] = value
        else:
            persistent = name not in getattr(theirs, "_non_persistent_buffers_set", ())
            _install(ours, name, value, persistent=persistent)


# An object of the source, the destination's object at the same path, the submodules of the first, and the attributes of
# the second if it was made on the way: there, a module of the source meets no attribute of another kind. Without this
# knowledge, a copy takes 1.3 times as long.
_Place = tuple[Any, nn.Module, dict[str, nn.Module], dict[str, Any] | None]


def _place(theirs: Any, ours: nn.Module, own: dict[str, Any] | None = None) -> _Place:
    # Most attributes of modules are modules, and nn.Module.__getattr__ looks for those last.
    children = getattr(theirs, "_modules", None)
    return theirs, ours, children if isinstance(children, dict) else {}, own  # a ScriptModule has another type there


def _find_place(path: str, places: dict[str, _Place | None]) -> _Place | None:
    if path in places:
        return places[path]
    parent, _, name = path.rpartition(".")
    above = _find_place(parent, places)
    places[path] = None if above is None else _step_down(above, name)
    return places[path]


def _step_down(place: _Place, name: str) -> _Place | None:
    theirs, ours, children, own = place
    their_child = children.get(name)
    if own is not None and their_child is not None:
        our_child = own["_modules"].get(name)
    else:
        their_child = getattr(theirs, name) if their_child is None else their_child
        our_child = _attribute_or_none(ours, name)
    if our_child is their_child:
        return None
    if our_child is not None:
        return _place(their_child, our_child)
    our_child = _empty_module()
    if own is None:
        _install_module(ours, name, our_child)
    else:  # as in `copy_attributes`: code of a network of blocks takes 0.99 of the time
        own["_modules"][name] = our_child
    return _place(their_child, our_child, vars(our_child))


def _attribute_or_none(module: nn.Module, name: str) -> Any:
    found = module._modules.get(name)
    # For a missing name, getattr raises an AttributeError inside. These look-ups are faster.
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
    """Return the attributes of an empty module, and name and type of the containers among them."""
    attributes = vars(nn.Module())
    return attributes, [(name, type(value)) for name, value in attributes.items() if type(value) in _CONTAINERS]


def _empty_module() -> nn.Module:
    """Return an `nn.Module()`, made in a third of its time."""
    if nn.Module.__init__ is not _MODULE_INIT:  # its replacement expects to be called
        return nn.Module()
    module = nn.Module.__new__(nn.Module)
    attributes, containers = _empty_attributes()
    own = attributes.copy()
    for name, kind in containers:
        own[name] = kind()
    object.__setattr__(module, "__dict__", own)  # filling the dict that it has takes longer
    return module


def attribute_of(module: Any, name: str) -> Any:
    """Return an attribute of a module or of any other object. Raises AttributeError if there is none."""
    # Most attributes of modules are modules, and nn.Module.__getattr__ looks for those last.
    children = getattr(module, "_modules", None)
    child = children.get(name) if isinstance(children, dict) else None  # a ScriptModule has another type there
    return child if child is not None else getattr(module, name)


def _install_module(parent: nn.Module, name: str, child: nn.Module) -> None:
    if name in parent._parameters or name in parent._buffers or name in vars(parent):
        setattr(parent, name, child)
    else:
        parent._modules[name] = child


def child_module(module: nn.Module, name: str) -> nn.Module:
    """Return the attribute of a module for the next part of a path; an empty module, if there is none."""
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
