"""What all modules of one class have in common, found out once in a process for each class of torch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from fxcore.operators.table import facts_of_name
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


_BATCH_NORMS = (torch.nn.modules.batchnorm._NormBase,)
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_ALWAYS_RANDOM = (torch.nn.FractionalMaxPool2d, torch.nn.FractionalMaxPool3d)


@dataclass(frozen=True)
class ModuleTraits:
    """Facts about a class of modules."""

    kind: str  # qualified name
    is_of_torch: bool
    is_layer: bool  # of torch.nn: has what its constructor puts there, and finds attributes as all modules do
    is_batch_norm: bool
    drops_p: bool  # draws with probability `p`
    drops_dropout: bool  # draws with probability `dropout`
    is_rrelu: bool
    is_embedding: bool
    is_always_random: bool
    observes: bool  # counts what it sees, training or not
    may_write_buffers: bool  # while it is training
    is_non_aliasing: bool  # its result never shares storage with what it is given, unless it works in place
    parameters: tuple[Parameter, ...]  # of the constructor; of a user's class, those that the table lacks in its base

    @cached_property
    def is_inert(self) -> bool:
        """Tell whether a layer of torch.nn does nothing but compute, unless it works in place."""
        may_act = self.is_batch_norm or self.drops_p or self.drops_dropout or self.is_rrelu or self.is_embedding
        return self.is_layer and not (may_act or self.is_always_random or self.may_write_buffers)

    @cached_property
    def is_inert_in_eval(self) -> bool:
        """Tell whether a layer of torch.nn does nothing but compute while it is not training."""
        return self.is_layer and not (self.is_embedding or self.is_always_random)

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
    module = cls.__module__
    is_of_torch = module.startswith("torch.")
    return ModuleTraits(
        kind=class_name(cls),
        is_of_torch=is_of_torch,
        is_layer=module.startswith("torch.nn.modules.") and _is_ordinary(cls),
        is_batch_norm=issubclass(cls, _BATCH_NORMS),
        drops_p=issubclass(cls, _DROPOUTS),
        drops_dropout=issubclass(cls, torch.nn.MultiheadAttention | torch.nn.RNNBase),
        is_rrelu=issubclass(cls, torch.nn.RReLU),
        is_embedding=issubclass(cls, _EMBEDDINGS),
        is_always_random=issubclass(cls, _ALWAYS_RANDOM),
        observes=module.startswith("torch.ao."),
        may_write_buffers=not module.startswith("torch.nn.") or cls.__name__.endswith("SpectralNorm"),
        is_non_aliasing=is_of_torch and "non_aliasing" in facts_of_name(f"torch.nn.{cls.__name__}"),
        parameters=recorded_parameters(cls) if is_of_torch else _new_parameters_of_base(cls),
    )


def _is_ordinary(cls: type) -> bool:
    """Tell whether a class is torch's own, not one derived at run time, and finds attributes as all modules do."""
    is_known = getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
    return is_known and getattr(cls, "__getattr__", None) is torch.nn.Module.__getattr__


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
