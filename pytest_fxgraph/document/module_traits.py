"""What all modules of one class have in common, found out once in a process for each class of torch."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from fxcore.operators.layers import layer_traits
from pytest_fxgraph.document.constructors import Parameter, recorded_parameters
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.target_names import class_name


class Attributes:
    """Attributes of a module by path."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._known: dict[str, Any] = {"": root}

    def at(self, path: str) -> Any:
        """Return what a path names. Raises AttributeError if a part of it is missing."""
        known = self._known
        if path not in known:
            parent, _, name = path.rpartition(".")
            owner = known[parent] if parent in known else self.at(parent)
            # Modules first: torch.nn.Module looks for its parameters and buffers before them, in Python.
            found = owner._modules.get(name) if isinstance(owner, torch.nn.Module) else None
            known[path] = getattr(owner, name) if found is None else found
        return known[path]


@dataclass(frozen=True)
class ModuleTraits:
    """Facts about a class of modules."""

    kind: str  # qualified name
    is_of_torch: bool
    is_layer: bool  # of torch.nn: has what its constructor puts there, and finds attributes as all modules do
    is_inert: bool  # a layer that does nothing but compute, unless it works in place
    parameters: tuple[Parameter, ...]  # of the constructor; of a user's class, those that the table lacks in its base

    @cached_property
    def kept_parameters(self) -> tuple[str, ...]:
        """The names of the constructor's parameters that a layer keeps as attributes: all but `bias`."""
        return tuple([parameter.name for parameter in self.parameters if parameter.name != "bias"])

    @cached_property
    def takes_bias(self) -> bool:
        """Tell whether the constructor has a parameter `bias`, of which a layer keeps the tensor or None."""
        return any(parameter.name == "bias" for parameter in self.parameters)


def traits_of(cls: type) -> ModuleTraits:
    """Return the traits of a class of modules."""
    known = _TRAITS_OF_LAYERS.get(cls)
    if known is None:
        # A class of the user's is not kept: it may be one of many that a test makes, and stay alive for nothing.
        known = _traits_of_torch(cls) if cls.__module__.startswith("torch.") else _traits(cls)
        if known.is_layer:
            _TRAITS_OF_LAYERS[cls] = known
    return known


_TRAITS_OF_LAYERS: dict[type, ModuleTraits] = {}  # of torch.nn's own classes, which are asked for most


@functools.lru_cache(maxsize=512)
def _traits_of_torch(cls: type) -> ModuleTraits:
    return _traits(cls)


def _traits(cls: type) -> ModuleTraits:
    layer = layer_traits(cls)
    return ModuleTraits(
        kind=class_name(cls),
        is_of_torch=layer.is_of_torch,
        is_layer=layer.is_layer,
        is_inert=layer.is_inert,
        parameters=recorded_parameters(cls) if layer.is_of_torch else _new_parameters_of_base(cls),
    )


def _new_parameters_of_base(cls: type) -> tuple[Parameter, ...]:
    """List what the class of torch that a user's class derives from has of parameters that some torches do not know."""
    base = next((each for each in cls.__mro__ if each.__module__.startswith("torch.")), torch.nn.Module)
    if base is torch.nn.Module:  # nearly always
        return ()
    return tuple([parameter for parameter in traits_of(base).parameters if parameter.is_new])


class CalledModule(NamedTuple):
    """A module that runs as part of a graph, and its document, if it is itself a graph."""

    path: str
    module: torch.nn.Module
    traits: ModuleTraits
    graph: GraphDocument | None


def parts_of(path: str, module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """List a module and the modules inside it, each under every path that it has."""
    if not module._modules:  # most of those that a graph calls
        return ((path, module),)
    parts: Iterable[tuple[str, torch.nn.Module]] = module.named_modules(prefix=path, remove_duplicate=False)
    return parts
