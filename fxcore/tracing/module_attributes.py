"""Paths, in the module hierarchy, of the modules, parameters, buffers and constants of a trace."""

from __future__ import annotations

from collections import OrderedDict
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch.utils import _pytree as pytree

from fxcore.node_data.distributed_types import is_process_group
from fxcore.node_data.opaque_types import is_opaque_symbolic_type

ATTRIBUTE_TYPES = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)

_NAME_OF_CONSTANT: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "_tensor_constant"),
    ((torch.ScriptObject, FakeScriptObject), "_torchbind_obj"),
    (pytree.TreeSpec, "_tree_spec_constant"),
)

# The types of most attributes of a module. No constant is of exactly one of these types.
_NEVER_CONSTANT = frozenset({dict, bool, int, float, str, type(None), list, tuple, set, OrderedDict, FunctionType})


def module_paths_and_constants(
    root: nn.Module,
) -> tuple[dict[nn.Module, str], dict[Any, str], dict[type[nn.Module], int]]:
    """Return the path of every module below `root`, itself included, and of every constant of these modules.

    A constant is a tensor, or another object of ATTRIBUTE_TYPES, that is a plain attribute. A module that is there
    several times has its first path, a constant its last one. A module inside itself, where torch.fx recurses without
    end, is searched once. Of each class of torch.nn, the first module is searched, and then modules with another number
    of attributes. The third result has the classes, with the numbers; see `constants_of_layers`. To search every module
    takes 1.06 times as long as the trace of a network of layers.
    """
    paths: dict[nn.Module, str] = {}
    constants: dict[Any, str] = {}
    sizes: dict[type[nn.Module], int] = {}
    unvisited = [("", root)]
    while unvisited:
        path, module = unvisited.pop()
        if paths.setdefault(module, path) is not path and _is_inside_itself(module):
            continue
        kind, attributes = type(module), module.__dict__
        if sizes.get(kind) != len(attributes):
            if not _NEVER_CONSTANT.issuperset(map(type, attributes.values())):
                constants.update(_constants_of(path, attributes))
            elif kind.__module__.startswith("torch.nn."):
                sizes[kind] = len(attributes)
        if module._modules:
            unvisited += _children(path, module)
    if type(root).named_modules is not nn.Module.named_modules:
        paths = _modules_of(root)
    return paths, constants, sizes


def _is_inside_itself(module: nn.Module) -> bool:
    """Return whether a module is registered in one of the modules below it, so that its paths have no end."""
    return any(child is module for each in _modules_of(module) for child in each._modules.values())


def constants_of_layers(paths: dict[nn.Module, str], sizes: dict[type[nn.Module], int]) -> dict[Any, str]:
    """Return the constants of the modules that `module_paths_and_constants` did not search."""
    found: dict[Any, str] = {}
    for module, path in paths.items():
        attributes = module.__dict__
        if sizes.get(type(module)) == len(attributes):
            found.update(_constants_of(path, attributes))
    return found


def _constants_of(path: str, attributes: dict[str, Any]) -> dict[Any, str]:
    prefix = f"{path}." if path else ""
    return {value: prefix + name for name, value in attributes.items() if isinstance(value, ATTRIBUTE_TYPES)}


def is_kept_as_attribute(value: Any) -> bool:
    """Return whether a constant has no form in source code, so that a graph reads it from its module."""
    if isinstance(value, (*ATTRIBUTE_TYPES, torch.Generator)):
        return True
    return is_opaque_symbolic_type(type(value)) or is_process_group(value)


def constant_prefix(value: Any) -> str:
    """Return the prefix for the attribute that keeps a constant without a module."""
    return next((prefix for kinds, prefix in _NAME_OF_CONSTANT if isinstance(value, kinds)), "_opaque_obj")


class AttributePaths:
    """Paths of the parameters and buffers of a root, by the very object."""

    def __init__(self, root: nn.Module, modules: dict[nn.Module, str] | None = None) -> None:
        """`modules` are the known modules with their paths. The trace may register others."""
        self._root = root
        self._modules = modules or {}
        # Tensors hash by identity. As keys they stay alive, so no other tensor takes their place in memory.
        self._parameters: dict[nn.Parameter, str] = {}
        self._buffers: dict[torch.Tensor, _BufferPlace] = {}
        self._versions: dict[torch.Tensor, int] = {}  # at the first read
        self._has_new_buffers = True
        self._constants: dict[Any, str] = {}

    def parameter(self, value: nn.Parameter) -> str | None:
        """Return the first path of a parameter, also if the trace installed the parameter, or None."""
        if value not in self._parameters:
            self._parameters = _parameters_of(self._root, self._modules)
            if value not in self._parameters:
                self._parameters = _parameters_of(self._root, _modules_of(self._root))
        return self._parameters.get(value)

    def note_buffer(self, value: torch.Tensor) -> None:
        """Note that a buffer was read. The traced code registered or assigned an unknown buffer itself."""
        if value not in self._versions and not value.is_inference():
            self._versions[value] = value._version
        self._has_new_buffers = self._has_new_buffers or value not in self._buffers

    def note_constants(self, constants: dict[Any, str]) -> None:
        """Note the plain tensor attributes of the root and its modules, with their paths."""
        self._constants = constants
        for value in constants:
            if type(value) is torch.Tensor and not value.is_inference():
                self._versions[value] = value._version

    def written(self) -> list[str]:
        """Return the paths of the noted tensors that were written since."""
        found = [value for value, version in self._versions.items() if value._version != version]
        if not found:
            return []
        buffers = _buffers_of(_modules_of(self._root))
        paths = [buffers[value].path if value in buffers else self._constants.get(value) for value in found]
        return [path for path in paths if path]

    def buffer(self, value: torch.Tensor) -> str | None:
        """Return the first path of a tensor that is a buffer now, or None."""
        place = self._buffers.get(value)
        if self._has_new_buffers or (place is not None and not place.holds(value)):
            self._buffers = _buffers_of(self._modules)
            if value not in self._buffers:
                self._buffers = _buffers_of(_modules_of(self._root))
            self._has_new_buffers = False
            place = self._buffers.get(value)
        return None if place is None else place.path


class _BufferPlace(NamedTuple):
    path: str
    holder: dict[str, Any]
    name: str

    def holds(self, value: torch.Tensor) -> bool:
        return self.holder.get(self.name) is value


def _modules_of(root: nn.Module) -> dict[nn.Module, str]:
    """Return the first path of every module below `root`, itself included, in the order of `named_modules`."""
    if type(root).named_modules is not nn.Module.named_modules:
        return {module: path for path, module in root.named_modules()}
    # The generators of nn.Module take four times as long.
    paths: dict[nn.Module, str] = {}
    unvisited = [("", root)]
    while unvisited:
        path, module = unvisited.pop()
        if module not in paths:
            paths[module] = path
            if module._modules:
                unvisited += _children(path, module)
    return paths


def _children(path: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return paths and modules of the children of a module, the last one first."""
    prefix = f"{path}." if path else ""
    return [(prefix + name, child) for name, child in reversed(module._modules.items()) if child is not None]


def _parameters_of(root: nn.Module, modules: dict[nn.Module, str]) -> dict[nn.Parameter, str]:
    if type(root).named_parameters is not nn.Module.named_parameters:
        return {parameter: path for path, parameter in root.named_parameters()}
    found: dict[nn.Parameter, str] = {}
    for module, prefix in modules.items():
        for name, value in module._parameters.items():
            if value is not None:
                found.setdefault(value, f"{prefix}.{name}" if prefix else name)
    return found


def _buffers_of(modules: dict[nn.Module, str]) -> dict[torch.Tensor, _BufferPlace]:
    found: dict[torch.Tensor, _BufferPlace] = {}
    for module, prefix in modules.items():
        for name, value in module._buffers.items():
            if value is not None:
                path = f"{prefix}.{name}" if prefix else name
                found.setdefault(value, _BufferPlace(path, module._buffers, name))
    return found
