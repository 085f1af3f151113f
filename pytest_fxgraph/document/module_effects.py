"""What a called module does beside computing its result."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .effects import Profile
from .module_traits import ModuleTraits, traits_of


def module_profile(module: torch.nn.Module, traits: ModuleTraits | None = None) -> Profile:
    """Give the profile of a called module, the modules inside it included."""
    traits = traits or traits_of(type(module))
    if traits.is_inert and not module._modules:
        is_inplace = module.__dict__.get("inplace") is True
        return _profile(False, False, is_inplace, traits.is_fresh and not is_inplace)
    if module._modules:
        parts = list(module.modules())
        draws, updates = any(map(is_random, parts)), any(map(updates_state, parts))
        # A user's module may hand its input to any of its parts; one of torch.nn writes its input only itself.
        is_inplace = any(map(_works_in_place, [module] if traits.is_of_torch else parts))
    else:
        draws, updates, is_inplace = is_random(module), updates_state(module), _works_in_place(module)
    return _profile(draws, updates, is_inplace, traits.is_fresh and not is_inplace)


@functools.cache  # of sixteen
def _profile(draws: bool, updates: bool, is_inplace: bool, is_fresh: bool) -> Profile:
    return Profile(
        kinds=("random",) * draws + ("state",) * updates,
        writes=((0, "input"),) if is_inplace else (),
        shares="none" if is_fresh else "all",
    )


def _works_in_place(module: torch.nn.Module) -> bool:
    if "inplace" in module.__dict__:
        return module.__dict__["inplace"] is True
    # Layers of torch.nn have it there or not at all; asking them is slow, because they look among their parameters.
    return not traits_of(type(module)).is_layer and getattr(module, "inplace", False) is True


def training_matters(module: torch.nn.Module) -> bool:
    """Tell whether a module of torch.nn computes something else when it is training."""
    traits = traits_of(type(module))
    if traits.is_batch_norm:
        return _keeps_statistics(module)
    return traits.is_rrelu or _drops(module)


def is_random(module: torch.nn.Module) -> bool:
    """Tell whether a call of a module draws random numbers."""
    traits = traits_of(type(module))
    return traits.is_always_random or (module.training and (traits.is_rrelu or _drops(module)))


def updates_state(module: torch.nn.Module) -> bool:
    """Tell whether a call of a module may change the module."""
    traits = traits_of(type(module))
    if traits.is_batch_norm:
        return module.training and _keeps_statistics(module)
    if traits.is_embedding:
        return getattr(module, "max_norm", None) is not None
    if not module._buffers:
        return False
    return traits.observes or (module.training and traits.may_write_buffers)


def _keeps_statistics(module: Any) -> bool:
    return bool(module.track_running_stats) or module.running_mean is not None


def _drops(module: Any) -> bool:
    traits = traits_of(type(module))
    if traits.drops_p:
        return bool(module.p > 0)
    return traits.drops_dropout and bool(module.dropout > 0)
