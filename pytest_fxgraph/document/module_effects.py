"""What a called module does beside computing its result."""

from __future__ import annotations

from typing import Any

import torch

from .effects import Profile
from .operator_effects import FRESH_MODULES

_BATCH_NORMS = (torch.nn.modules.batchnorm._NormBase,)
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_ALWAYS_RANDOM = (torch.nn.FractionalMaxPool2d, torch.nn.FractionalMaxPool3d)


def module_profile(module: torch.nn.Module) -> Profile:
    """Give the profile of a called module, the modules inside it included."""
    parts = list(module.modules()) if module._modules else [module]
    kinds = []
    if any(map(is_random, parts)):
        kinds.append("random")
    if any(map(updates_state, parts)):
        kinds.append("state")
    # A user's module may hand its input to any of its parts; one of torch.nn writes its input only itself.
    writers = [module] if is_of_torch(module) else parts
    is_inplace = any(getattr(part, "inplace", False) is True for part in writers)
    is_fresh = is_of_torch(module) and type(module).__name__ in FRESH_MODULES and not is_inplace
    return Profile(
        kinds=tuple(kinds),
        writes=((0, "input"),) if is_inplace else (),
        shares="none" if is_fresh else "all",
    )


def is_of_torch(module: torch.nn.Module) -> bool:
    """Tell whether a module's class comes with torch."""
    return type(module).__module__.startswith("torch.")


def training_matters(module: torch.nn.Module) -> bool:
    """Tell whether a module of torch.nn computes something else when it is training."""
    if isinstance(module, _BATCH_NORMS):
        return _keeps_statistics(module)
    return _drops(module) or isinstance(module, torch.nn.RReLU)


def is_random(module: torch.nn.Module) -> bool:
    """Tell whether a call of a module draws random numbers."""
    if isinstance(module, _ALWAYS_RANDOM):
        return True
    return module.training and (_drops(module) or isinstance(module, torch.nn.RReLU))


def updates_state(module: torch.nn.Module) -> bool:
    """Tell whether a call of a module may change the module."""
    if isinstance(module, _BATCH_NORMS):
        return module.training and _keeps_statistics(module)
    if isinstance(module, _EMBEDDINGS):
        return module.max_norm is not None
    if not module._buffers:
        return False
    cls = type(module)
    if cls.__module__.startswith("torch.ao."):  # observers count what they see, training or not
        return True
    if cls.__module__.startswith("torch.nn.") and not cls.__name__.endswith("SpectralNorm"):
        return False
    return module.training


def _keeps_statistics(module: Any) -> bool:
    return bool(module.track_running_stats) or module.running_mean is not None


def _drops(module: torch.nn.Module) -> bool:
    if isinstance(module, _DROPOUTS):
        return module.p > 0
    return isinstance(module, torch.nn.MultiheadAttention | torch.nn.RNNBase) and module.dropout > 0
