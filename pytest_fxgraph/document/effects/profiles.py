"""What each operator does beside computing its result: draws random numbers, writes, keeps state, talks."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch._ops import OpOverload

from pytest_fxgraph.document.effects import tables
from pytest_fxgraph.document.module_traits import ModuleTraits, traits_of

ArgumentPlace = tuple[int, str]
Condition = tuple[int, tuple[str, ...], Any]

# Functions of these modules are known; those of all others are the user's.
KNOWN_MODULES = frozenset({"torch", "operator", "builtins", "math", "cmath", "aten", "prims", "higher_order", "fxcore"})


@dataclass(frozen=True)
class OperatorEffects:
    """What is known about a call target, the same for every call of it."""

    kinds: tuple[str, ...] = ()  # "random", "io", "call", "state"
    condition: Condition | None = None  # of `kinds`; a call whose argument is False has none
    writes: tuple[ArgumentPlace, ...] = ()
    writes_condition: Condition | None = None
    inplace: ArgumentPlace | None = None  # the argument that makes the call write its first one
    shares: tuple[int, ...] | str = "all"  # arguments that the result may alias: "none", "first", "all", or positions
    is_ambient: bool = False  # changes how all that follows computes

    @cached_property
    def is_plain(self) -> bool:
        """Tell whether no call of this target has an effect, except by `out=` or `inplace=`."""
        return not (self.kinds or self.writes or self.inplace or self.is_ambient)


PLAIN = OperatorEffects()
FIRST: tuple[ArgumentPlace, ...] = ((0, "self"), (0, "input"))


def method_effects(name: str) -> OperatorEffects:
    """Give the profile of a method."""
    if is_inplace_name(name) or name in tables.MUTATING_METHODS:
        stores = name in tables.MUTATING_METHODS
        kinds = ("random",) if name in tables.RANDOM else ()
        return OperatorEffects(kinds=kinds, writes=FIRST, shares="all" if stores else "first")
    if name in tables.RANDOM:
        return OperatorEffects(kinds=("random",), shares="none")
    if name in ("backward", "register_hook"):
        return OperatorEffects(kinds=("state",), shares="first")
    return OperatorEffects(shares="none" if name in tables.FRESH else "first")


def function_effects(target: Any, name: str) -> OperatorEffects:
    """Give the profile of a function, whose stable name is known already."""
    if isinstance(target, OpOverload):
        return _overload_profile(target, name)
    root, _, rest = name.partition(".")
    short = name.rpartition(".")[2]
    if name in tables.SIDE_EFFECTS:
        return OperatorEffects(kinds=("io",), shares="none")
    if root == "higher_order" or root not in KNOWN_MODULES:
        return OperatorEffects(kinds=("call",))
    if root == "math" or root == "cmath":
        return OperatorEffects(shares="none")
    if root in ("operator", "builtins"):
        return _python_profile(name, short)
    if rest.startswith("Tensor."):
        return method_effects(short)
    return _torch_profile(target, short)


def is_inplace_name(name: str) -> bool:
    """Tell whether a name says, as torch's names do, that the first argument is written."""
    return name.endswith("_") and not name.endswith("__")


def _python_profile(name: str, short: str) -> OperatorEffects:
    if name in tables.MUTATING_FUNCTIONS:
        return OperatorEffects(writes=((0, ""),), shares="first")
    fresh = tables.FRESH_OPERATORS if name.startswith("operator.") else tables.FRESH_BUILTINS
    if short in fresh:
        return OperatorEffects(shares="none")
    return OperatorEffects(shares="first" if short in ("getitem", "getattr") else "all")


def _torch_profile(target: Any, short: str) -> OperatorEffects:
    if short in tables.AMBIENT:
        return OperatorEffects(is_ambient=True, shares="none")
    updated = tables.STATISTICS_UPDATED_WHEN.get(short)
    if updated:
        return OperatorEffects(writes=updated[0], writes_condition=updated[1], shares="none")
    is_random = short in tables.RANDOM
    return OperatorEffects(
        kinds=("random",) if is_random else (),
        condition=tables.WHEN.get(short),
        writes=FIRST if is_inplace_name(short) else (),
        inplace=_inplace_argument(target),
        shares="none" if short in tables.FRESH else "all",
    )


def _inplace_argument(target: Any) -> ArgumentPlace | None:
    try:
        parameters = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):  # most functions written in C have no signature
        return None
    return (parameters.index("inplace"), "inplace") if "inplace" in parameters else None


def _overload_profile(target: OpOverload, name: str) -> OperatorEffects:
    """Read an operator's own schema, which says what it writes and what its results may alias."""
    if name in tables.SIDE_EFFECTS:
        return OperatorEffects(kinds=("io",), shares="none")
    short = name.split(".")[-2]
    arguments = list(enumerate(target._schema.arguments))
    updated = tables.STATISTICS_UPDATED_WHEN.get(short, ((), None))
    writes = tuple((index, each.name) for index, each in arguments if each.alias_info and each.alias_info.is_write)
    is_random = short in tables.RANDOM or any("nondeterministic_seeded" in str(tag) for tag in target.tags)
    returns_alias = any(each.alias_info for each in target._schema.returns)
    shares = tuple(index for index, each in arguments if each.alias_info) if returns_alias else "none"
    return OperatorEffects(
        kinds=("random",) if is_random else (),
        condition=tables.WHEN.get(short),
        writes=writes or updated[0],
        writes_condition=None if writes else updated[1],
        # `dropout` and its like return their input where they have nothing to do, and say so by a tag only.
        shares="all" if any("maybe_aliasing" in str(tag) for tag in target.tags) else shares,
    )


def holds(condition: Condition | None, args: Any, kwargs: Any) -> bool:
    """Tell whether a call may do what its profile says: only a literal false argument rules it out."""
    if condition is None:
        return True
    position, names, default = condition
    value = args[position] if len(args) > position else next((kwargs[key] for key in names if key in kwargs), default)
    return not (isinstance(value, bool | int | float) and not value) and value is not None


def module_effects(module: torch.nn.Module, traits: ModuleTraits | None = None) -> OperatorEffects:
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
def _profile(draws: bool, updates: bool, is_inplace: bool, is_fresh: bool) -> OperatorEffects:
    return OperatorEffects(
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
