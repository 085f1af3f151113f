"""What each operator does beside computing its result: draws random numbers, writes, keeps state, prints."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from fxcore.operators.table import Facts, facts_of_name, facts_of_operator, inplace_argument, names_mutation
from pytest_fxgraph.document.module_traits import ModuleTraits, traits_of
from pytest_fxgraph.document.operator_kinds import is_packet, operator_name, overloads_of, schema_of, tags_of

ArgumentPlace = tuple[int, str]
Condition = Sequence[Any]  # position, names and default of an argument

# Functions of these modules are known; those of all others are the user's.
KNOWN_MODULES = frozenset({"torch", "operator", "builtins", "math", "cmath", "aten", "prims", "higher_order", "fxcore"})


@dataclass(frozen=True)
class OperatorEffects:
    """What a call target does beside computing its result, the same for every call of it."""

    kinds: tuple[str, ...] = ()  # "random", "io", "call", "state", "collective"
    condition: Condition | None = None  # of `kinds`: a call whose argument is false has none
    writes: tuple[ArgumentPlace, ...] = ()
    writes_condition: Condition | None = None
    inplace: ArgumentPlace | None = None  # the argument that makes the call write its first one
    aliases: tuple[int, ...] | str = "all"  # arguments that the result may alias: "none", "first", "all", or positions
    changes_global_state: bool = False  # changes how all that follows computes

    @cached_property
    def is_plain(self) -> bool:
        """Tell whether no call of this target has an effect, except by `out=` or `inplace=`."""
        return not (self.kinds or self.writes or self.inplace or self.changes_global_state)


PLAIN = OperatorEffects()
FIRST: tuple[ArgumentPlace, ...] = ((0, "self"), (0, "input"))


def method_effects(name: str) -> OperatorEffects:
    """Return the effects of a method."""
    facts = facts_of_name(name)
    is_random = "random" in facts
    stores = "mutates" in facts
    if stores or names_mutation(name):
        # A container keeps what it is given.
        return OperatorEffects(("random",) * is_random, writes=FIRST, aliases="all" if stores else "first")
    if is_random:
        return OperatorEffects(("random",), aliases="none")
    return OperatorEffects(("state",) * ("changes_state" in facts), aliases=_aliases(facts, "first"))


def function_effects(target: Any, name: str) -> OperatorEffects:
    """Return the effects of a function, whose stable name is known already."""
    schema = schema_of(target)
    if schema is not None:
        return _overload_effects(target, schema, operator_name(target) or name)
    root, _, rest = name.partition(".")
    facts = facts_of_name(name)
    if "side_effect" in facts:
        return OperatorEffects(kinds=("io",), aliases="none")
    if "collective" in facts:
        written = tuple((position, name) for position, name in facts["writes"])
        # The work that it returns is waited for, which counts as a write.
        return OperatorEffects(("collective",), writes=written, aliases=tuple(position for position, _ in written))
    if root not in KNOWN_MODULES and is_packet(target):
        return _packet_effects(target)
    if root == "higher_order" or root not in KNOWN_MODULES:
        return OperatorEffects(kinds=("call",))
    if root in ("math", "cmath"):
        return OperatorEffects(aliases="none")
    if root in ("operator", "builtins"):
        return _python_effects(rest, facts)
    if rest.startswith("Tensor."):
        return method_effects(rest.rpartition(".")[2])
    return _torch_effects(target, rest.rpartition(".")[2], facts)


def _python_effects(short: str, facts: Facts) -> OperatorEffects:
    if "mutates" in facts:
        return OperatorEffects(writes=((0, ""),), aliases="first")
    return OperatorEffects(aliases=_aliases(facts, "first" if short in ("getitem", "getattr") else "all"))


def _torch_effects(target: Any, short: str, facts: Facts) -> OperatorEffects:
    if "global_state" in facts:
        return OperatorEffects(changes_global_state=True, aliases="none")
    writes, condition = _conditional_writes(facts)
    return OperatorEffects(
        kinds=("random",) * ("random" in facts),
        condition=facts.get("random_if"),
        writes=FIRST if names_mutation(short) else writes,
        writes_condition=condition,
        inplace=None if writes else inplace_argument(target),
        aliases=_aliases(facts, "all"),
    )


def _packet_effects(packet: Any) -> OperatorEffects:
    """Sum up the overloads of an operator, of which one will be called."""
    found = [_overload_effects(each, schema_of(each), operator_name(each) or "") for each in overloads_of(packet)]
    is_aliasing = any(each.aliases != "none" for each in found)
    return OperatorEffects(
        kinds=tuple(dict.fromkeys(kind for each in found for kind in each.kinds)),
        writes=tuple(dict.fromkeys(place for each in found for place in each.writes)),
        aliases="all" if is_aliasing else "none",
    )


def _overload_effects(target: Any, schema: Any, name: str) -> OperatorEffects:
    """Read an operator's own schema, which says what it writes and what its results may alias."""
    if "side_effect" in facts_of_name(name):
        return OperatorEffects(kinds=("io",), aliases="none")
    facts = facts_of_name(name.split(".")[-2])
    of_groups = facts_of_operator(target) if isinstance(target, torch._ops.OpOverload) else {}
    if "waits" in of_groups:
        return OperatorEffects(writes=FIRST, aliases="first")  # nobody may read the value before
    arguments = list(enumerate(schema.arguments))
    writes = tuple((index, each.name) for index, each in arguments if each.alias_info and each.alias_info.is_write)
    other_writes, condition = _conditional_writes(facts)
    aliases: tuple[int, ...] | str = "none"
    if any("maybe_aliasing" in str(tag) for tag in tags_of(target)):
        # `dropout` and its like return their input where they have nothing to do, and say so by a tag only.
        aliases = "all"
    elif any(each.alias_info for each in schema.returns):
        aliases = tuple(index for index, each in arguments if each.alias_info)
    return OperatorEffects(
        kinds=("random",) * ("random" in facts or torch.Tag.nondeterministic_seeded in tags_of(target))
        + ("collective",) * ("collective" in of_groups),
        condition=facts.get("random_if"),
        writes=writes or other_writes,
        writes_condition=None if writes else condition,
        aliases=aliases,
    )


def _aliases(facts: Facts, otherwise: str) -> str:
    return "none" if "non_aliasing" in facts else otherwise


def _conditional_writes(facts: Facts) -> tuple[tuple[ArgumentPlace, ...], Condition | None]:
    written, condition = facts.get("writes_if", ((), None))
    return tuple((position, name) for position, name in written), condition


def holds(condition: Condition | None, args: Any, kwargs: Any) -> bool:
    """Tell whether a call may do what its effects say: only a literal false argument rules it out."""
    if condition is None:
        return True
    position, names, default = condition
    value = args[position] if len(args) > position else next((kwargs[key] for key in names if key in kwargs), default)
    return not (isinstance(value, bool | int | float) and not value) and value is not None


def module_effects(module: torch.nn.Module, traits: ModuleTraits | None = None) -> OperatorEffects:
    """Return the effects of a called module, the modules inside it included."""
    traits = traits or traits_of(type(module))
    if not module._modules and (traits.is_inert or (traits.is_inert_in_eval and not module.training)):
        is_inplace = module.__dict__.get("inplace") is True
        return _effects_of_module(False, False, is_inplace, traits.is_non_aliasing and not is_inplace)
    if module._modules:
        parts = list(module.modules())
        draws, updates = any(map(is_random, parts)), any(map(updates_state, parts))
        # A user's module may hand its input to any of its parts; one of torch.nn writes its input only itself.
        is_inplace = any(map(_works_in_place, [module] if traits.is_of_torch else parts))
    else:
        draws, updates, is_inplace = is_random(module), updates_state(module), _works_in_place(module)
    return _effects_of_module(draws, updates, is_inplace, traits.is_non_aliasing and not is_inplace)


@functools.cache  # of sixteen
def _effects_of_module(draws: bool, updates: bool, is_inplace: bool, is_new: bool) -> OperatorEffects:
    return OperatorEffects(
        kinds=("random",) * draws + ("state",) * updates,
        writes=((0, "input"),) if is_inplace else (),
        aliases="none" if is_new else "all",
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
