"""What each operator does beside computing its result: draws random numbers, writes, keeps state, talks."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch._ops import OpOverload

from . import operator_effects as table

ArgumentPlace = tuple[int, str]
Condition = tuple[int, tuple[str, ...], Any]

# Functions of these modules are known; those of all others are the user's.
KNOWN_MODULES = frozenset({"torch", "operator", "builtins", "math", "cmath", "aten", "prims", "higher_order", "fxcore"})


@dataclass(frozen=True)
class Profile:
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


PLAIN = Profile()
FIRST: tuple[ArgumentPlace, ...] = ((0, "self"), (0, "input"))


def method_profile(name: str) -> Profile:
    """Give the profile of a method."""
    if is_inplace_name(name) or name in table.MUTATING_METHODS:
        stores = name in table.MUTATING_METHODS
        kinds = ("random",) if name in table.RANDOM else ()
        return Profile(kinds=kinds, writes=FIRST, shares="all" if stores else "first")
    if name in table.RANDOM:
        return Profile(kinds=("random",), shares="none")
    if name in ("backward", "register_hook"):
        return Profile(kinds=("state",), shares="first")
    return Profile(shares="none" if name in table.FRESH else "first")


def function_profile(target: Any, name: str) -> Profile:
    """Give the profile of a function, whose stable name is known already."""
    if isinstance(target, OpOverload):
        return _overload_profile(target, name)
    root, _, rest = name.partition(".")
    short = name.rpartition(".")[2]
    if name in table.SIDE_EFFECTS:
        return Profile(kinds=("io",), shares="none")
    if root == "higher_order" or root not in KNOWN_MODULES:
        return Profile(kinds=("call",))
    if root == "math" or root == "cmath":
        return Profile(shares="none")
    if root in ("operator", "builtins"):
        return _python_profile(name, short)
    if rest.startswith("Tensor."):
        return method_profile(short)
    return _torch_profile(target, short)


def is_inplace_name(name: str) -> bool:
    """Tell whether a name says, as torch's names do, that the first argument is written."""
    return name.endswith("_") and not name.endswith("__")


def _python_profile(name: str, short: str) -> Profile:
    if name in table.MUTATING_FUNCTIONS:
        return Profile(writes=((0, ""),), shares="first")
    fresh = table.FRESH_OPERATORS if name.startswith("operator.") else table.FRESH_BUILTINS
    if short in fresh:
        return Profile(shares="none")
    return Profile(shares="first" if short in ("getitem", "getattr") else "all")


def _torch_profile(target: Any, short: str) -> Profile:
    if short in table.AMBIENT:
        return Profile(is_ambient=True, shares="none")
    updated = table.STATISTICS_UPDATED_WHEN.get(short)
    if updated:
        return Profile(writes=updated[0], writes_condition=updated[1], shares="none")
    is_random = short in table.RANDOM
    return Profile(
        kinds=("random",) if is_random else (),
        condition=table.WHEN.get(short),
        writes=FIRST if is_inplace_name(short) else (),
        inplace=_inplace_argument(target),
        shares="none" if short in table.FRESH else "all",
    )


def _inplace_argument(target: Any) -> ArgumentPlace | None:
    try:
        parameters = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):  # most functions written in C have no signature
        return None
    return (parameters.index("inplace"), "inplace") if "inplace" in parameters else None


def _overload_profile(target: OpOverload, name: str) -> Profile:
    """Read an operator's own schema, which says what it writes and what its results may alias."""
    if name in table.SIDE_EFFECTS:
        return Profile(kinds=("io",), shares="none")
    short = name.split(".")[-2]
    arguments = list(enumerate(target._schema.arguments))
    updated = table.STATISTICS_UPDATED_WHEN.get(short, ((), None))
    writes = tuple((index, each.name) for index, each in arguments if each.alias_info and each.alias_info.is_write)
    is_random = short in table.RANDOM or any("nondeterministic_seeded" in str(tag) for tag in target.tags)
    returns_alias = any(each.alias_info for each in target._schema.returns)
    shares = tuple(index for index, each in arguments if each.alias_info) if returns_alias else "none"
    return Profile(
        kinds=("random",) if is_random else (),
        condition=table.WHEN.get(short),
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
