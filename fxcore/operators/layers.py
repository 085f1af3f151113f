"""Effects of modules by their class and settings: random numbers, statistics, writes in place."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch

from fxcore.operators.table import NO_FACTS, Facts, facts_of_name

_BATCH_NORMS = (torch.nn.modules.batchnorm._NormBase,)
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_RECURRENT = (torch.nn.MultiheadAttention, torch.nn.RNNBase)
_EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_ALWAYS_RANDOM = (torch.nn.FractionalMaxPool2d, torch.nn.FractionalMaxPool3d)


class LayerTraits(NamedTuple):
    """Facts about all modules of one class."""

    is_of_torch: bool
    is_layer: bool  # of torch.nn: its attributes come from its constructor, and it finds them as all modules do
    is_batch_norm: bool
    probability: str | None  # the attribute with the probability of dropping a value
    is_rrelu: bool
    is_embedding: bool
    is_always_random: bool
    observes: bool  # counts its inputs in training and in evaluation
    may_write_buffers: bool  # in training
    is_inert: bool  # a layer that only computes, unless it works in place
    is_inert_in_eval: bool
    facts: Facts  # the row of the class in the table of operators


# Graphs ask most about torch's own layers. Other classes stay out: a test may make many, and this dict keeps its keys.
_KNOWN: dict[type, LayerTraits] = {}


def layer_traits(cls: type) -> LayerTraits:
    """Return the traits of a class of modules."""
    known = _KNOWN.get(cls)
    if known is None:
        known = _new_traits(cls)
        if known.is_layer:
            _KNOWN[cls] = known
    return known


def _new_traits(cls: type) -> LayerTraits:
    module = cls.__module__
    is_layer = module.startswith("torch.nn.modules.") and _is_ordinary(cls)
    is_batch_norm, is_rrelu = issubclass(cls, _BATCH_NORMS), issubclass(cls, torch.nn.RReLU)
    probability = "p" if issubclass(cls, _DROPOUTS) else "dropout" if issubclass(cls, _RECURRENT) else None
    is_embedding, is_always_random = issubclass(cls, _EMBEDDINGS), issubclass(cls, _ALWAYS_RANDOM)
    may_write_buffers = not module.startswith(("torch.nn.", "torch.ao.nn.")) or cls.__name__.endswith("SpectralNorm")
    is_inert_in_eval = is_layer and not (is_embedding or is_always_random)
    return LayerTraits(
        is_of_torch=module.startswith("torch."),
        is_layer=is_layer,
        is_batch_norm=is_batch_norm,
        probability=probability,
        is_rrelu=is_rrelu,
        is_embedding=is_embedding,
        is_always_random=is_always_random,
        observes=module.startswith("torch.ao.quantization."),
        may_write_buffers=may_write_buffers,
        is_inert=is_inert_in_eval and not (is_batch_norm or probability or is_rrelu or may_write_buffers),
        is_inert_in_eval=is_inert_in_eval,
        facts=_facts_of_class(cls),
    )


def _is_ordinary(cls: type) -> bool:
    """Return whether a class is torch's own, not derived at run time, and finds attributes as all modules do."""
    is_known = getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
    return is_known and getattr(cls, "__getattr__", None) is torch.nn.Module.__getattr__


def _facts_of_class(cls: type) -> Facts:
    if cls.__module__.startswith("torch.nn.modules."):
        return facts_of_name(f"torch.nn.{cls.__name__}")
    if cls.__module__.startswith("torch.ao.nn."):
        return facts_of_name(f"torch.ao.nn.{cls.__name__}") or facts_of_name(f"torch.nn.{cls.__name__}")
    return NO_FACTS


def works_in_place(module: torch.nn.Module) -> bool:
    """Return whether a call of a module writes its input."""
    if "inplace" in module.__dict__:
        return module.__dict__["inplace"] is True
    # A layer of torch.nn has `inplace` in its own dict or not at all. getattr is slow: it looks among the parameters.
    return not layer_traits(type(module)).is_layer and getattr(module, "inplace", False) is True


def training_matters(module: torch.nn.Module) -> bool:
    """Return whether a module of torch.nn computes something else in training."""
    traits = layer_traits(type(module))
    if traits.is_batch_norm:
        return _keeps_statistics(module)
    return traits.is_rrelu or _drops(module)


def draws_randomly(module: torch.nn.Module) -> bool:
    """Return whether a call of a module draws random numbers."""
    traits = layer_traits(type(module))
    return traits.is_always_random or (module.training and (traits.is_rrelu or _drops(module)))


def updates_state(module: torch.nn.Module) -> bool:
    """Return whether a call of a module may change the module."""
    traits = layer_traits(type(module))
    if traits.is_batch_norm:
        return module.training and _keeps_statistics(module)
    if traits.is_embedding:
        return getattr(module, "max_norm", None) is not None
    return bool(module._buffers) and (traits.observes or (module.training and traits.may_write_buffers))


def _keeps_statistics(module: Any) -> bool:
    return bool(module.track_running_stats) or module.running_mean is not None


def _drops(module: Any) -> bool:
    probability = layer_traits(type(module)).probability
    return probability is not None and bool(getattr(module, probability) > 0)
