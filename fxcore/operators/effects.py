"""One table of the effects of calls: reads, writes, aliases, randomness and order of a function, method or module.

Dead code elimination, passes, the recording of written tensors and the documents of goldens all ask `effects_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload, OpOverloadPacket

from fxcore.operators.kinds import is_packet, operator_name, overload_behind, overloads_of, schema_of, tags_of
from fxcore.operators.layers import draws_randomly, layer_traits, updates_state, works_in_place
from fxcore.operators.table import (
    NO_FACTS,
    Facts,
    facts_of_name,
    facts_of_operator,
    inplace_argument,
    name_of_function,
    names_mutation,
)

ArgumentPlace = tuple[int, str]  # position and name
Condition = Sequence[Any]  # position, names and default of an argument

_QUESTIONS = frozenset({"asks_shape", "asks_type", "asks_structure", "asks_mode"})
# The table covers the functions of these modules. Functions of every other module belong to the user.
KNOWN_MODULES = frozenset({"torch", "operator", "builtins", "math", "cmath", "aten", "prims", "higher_order", "fxcore"})


class Effects(NamedTuple):
    """The effects of a call target, equal for every call of it. A method answers for one call with its arguments."""

    kinds: tuple[str, ...] = ()  # "random", "io", "call" (user code: anything may happen), "state", "collective"
    condition: Condition | None = None  # of `kinds`: a call with a false argument there has none of the kinds
    writes: tuple[ArgumentPlace, ...] = ()  # the arguments whose memory a call writes
    writes_condition: Condition | None = None
    inplace: ArgumentPlace | None = None  # a true argument there makes the call write its first argument
    aliases: tuple[int, ...] | str = "all"  # arguments that the result may alias: "none", "first", "all", or positions
    changes_global_state: bool = False  # changes how all later calls compute
    facts: Facts = NO_FACTS  # the target's row in the table of operators; empty for an unknown target

    @property
    def is_plain(self) -> bool:
        """Whether every call of this target only computes, except for `out=`."""
        return not (self.kinds or self.writes or self.inplace or self.changes_global_state)

    @property
    def asks(self) -> bool:
        """Whether a call asks for a size, a type, a structure or a mode. Writes of numbers do not change the answer."""
        return not _QUESTIONS.isdisjoint(self.facts)

    def kinds_of_call(self, args: Any, kwargs: Any) -> tuple[str, ...]:
        """Return the kinds of a call with these arguments."""
        return self.kinds if self.kinds and holds(self.condition, args, kwargs) else ()

    def works_in_place(self, args: Any, kwargs: Any) -> bool:
        """Return whether the argument `inplace` may be true in a call."""
        if self.inplace is None:
            return False
        value = argument_at(self.inplace, args, kwargs)
        # A node given as argument may be true.
        return value is not None and value is not False and not (isinstance(value, int) and not value)

    def written(self, args: Any, kwargs: Any) -> list[Any]:
        """Return the arguments whose memory a call may write. A node as `inplace=` or `training=` may be true."""
        # Schemas list `out` among the writes, and functions without a schema do not.
        written = [kwargs["out"]] if "out" in kwargs and all(name != "out" for _, name in self.writes) else []
        if self.writes and holds(self.writes_condition, args, kwargs):
            written += [argument_at(place, args, kwargs) for place in self.writes]
        if self.works_in_place(args, kwargs):
            written.append(first_argument(args, kwargs))
        return [each for each in written if each is not None]


PLAIN = Effects()
FIRST: tuple[ArgumentPlace, ...] = ((0, "self"), (0, "input"), (0, "tensor"))  # torch.nn.init says `tensor`
_IO = Effects(("io",), aliases="none")
_OF_USER = Effects(("call",))


def effects_of(op: str, target: Any, module: torch.nn.Module | None = None) -> Effects:
    """Return the effects of a target called by a node with opcode `op`.

    `module` is the module that a `call_module` node calls; for None and for nodes that call nothing they are PLAIN.
    """
    if op == "call_method":
        return method_effects(str(target))
    if op == "call_function":
        return function_effects(target, None)
    return PLAIN if module is None else module_effects(module)


@functools.lru_cache(maxsize=4096)
def method_effects(name: str) -> Effects:
    """Return the effects of a method."""
    facts = facts_of_name(name)
    is_random = ("random",) * ("random" in facts)
    stores = "mutates" in facts
    if stores or names_mutation(name):
        # A container keeps the values that it receives, and a tensor the memory that `set_` gives to it.
        return Effects(is_random, writes=FIRST, aliases="all" if stores else "first", facts=facts)
    if is_random:
        return Effects(is_random, aliases="none", facts=facts)
    return Effects(("state",) * ("changes_state" in facts), aliases=_aliases(facts, "first"), facts=facts)


@functools.lru_cache(maxsize=1024)
def attribute_effects(name: str) -> Effects:
    """Return the effects of a read of an attribute, most often of a tensor."""
    facts = facts_of_name(f"Tensor.{name}")
    return Effects(aliases="none", facts=facts) if "non_aliasing" in facts else function_effects(getattr, None)


# Because the dict keeps its keys alive, functions and operators of the user stay out of it.
_KNOWN: dict[tuple[Any, str | None], Effects] = {}


def function_effects(target: Any, name: str | None) -> Effects:
    """Return the effects of a function or operator. `name` is its stable name where the caller knows it."""
    try:
        return _KNOWN[target, name]
    except (KeyError, TypeError):  # TypeError: not hashable
        pass
    full_name = name or operator_name(target) or name_of_function(target)
    effects = _new_effects(target, full_name)
    is_operator = isinstance(target, (OpOverload, OpOverloadPacket))
    if (is_operator or full_name.partition(".")[0] in KNOWN_MODULES) and isinstance(target, Hashable):
        _KNOWN[target, name] = effects
    return effects


def _new_effects(target: Any, name: str) -> Effects:
    schema = schema_of(target)
    if schema is not None:
        return _overload_effects(target, schema)
    if is_packet(target):
        return _packet_effects(target)
    root, _, rest = name.partition(".")
    facts = facts_of_name(name)
    if "side_effect" in facts:
        return _IO._replace(facts=facts)
    if "collective" in facts:
        written = tuple((position, argument) for position, argument in facts["writes"])
        # The returned work must be awaited, and waiting counts as a write.
        aliases = tuple(position for position, _ in written)
        return Effects(("collective",), writes=written, aliases=aliases, facts=facts)
    if root == "onnx" and rest[:1].isupper():  # an operator of the ONNX standard; they write nothing
        return Effects(("random",) * ("random" in facts), aliases="none", facts=facts)
    if root == "higher_order" or root not in KNOWN_MODULES:
        return _OF_USER
    if root in ("math", "cmath"):
        return Effects(aliases="none")
    if root in ("operator", "builtins"):
        return _python_effects(rest, facts)
    if rest.startswith("Tensor."):
        return method_effects(rest.rpartition(".")[2])
    return _torch_effects(target, rest.rpartition(".")[2], facts)


def _python_effects(short: str, facts: Facts) -> Effects:
    if "mutates" in facts:
        # After setattr(x, "data", y), x and y share memory.
        return Effects(writes=FIRST, aliases="all" if short == "setattr" else "first", facts=facts)
    return Effects(aliases=_aliases(facts, "first" if short in ("getitem", "getattr") else "all"), facts=facts)


def _torch_effects(target: Any, short: str, facts: Facts) -> Effects:
    if "global_state" in facts and "random" not in facts:  # of generators, the order of random calls tells all
        return Effects(changes_global_state=True, aliases="none", facts=facts)
    writes, condition = _conditional_writes(facts)
    return Effects(
        kinds=("random",) * ("random" in facts),
        condition=facts.get("random_if"),
        writes=FIRST if names_mutation(short) or "mutates" in facts else writes,
        writes_condition=condition,
        inplace=inplace_argument(target),
        aliases=_aliases(facts, "all"),
        facts=facts,
    )


def _packet_effects(packet: Any) -> Effects:
    """Return the joined effects of a packet's overloads, because a call may run any of them."""
    found = [_overload_effects(each, schema_of(each)) for each in overloads_of(packet)]
    is_aliasing = any(each.aliases != "none" for each in found)
    return Effects(
        kinds=tuple(dict.fromkeys(kind for each in found for kind in each.kinds)),
        writes=tuple(dict.fromkeys(place for each in found for place in each.writes)),
        aliases="all" if is_aliasing else "none",
        facts=facts_of_operator(packet) if isinstance(packet, OpOverloadPacket) else NO_FACTS,
    )


def _overload_effects(target: Any, schema: Any) -> Effects:
    """Return the effects of an overload: its schema says its writes and aliases."""
    name = str(operator_name(target))
    known = overload_behind(target)
    own = facts_of_operator(known) if isinstance(known, OpOverload) else NO_FACTS
    if "side_effect" in facts_of_name(name):
        return _IO._replace(facts=own)
    facts = facts_of_name(name.split(".")[-2])
    arguments = list(enumerate(schema.arguments))
    if "waits" in own:  # nobody may read the value earlier
        return Effects(writes=((0, arguments[0][1].name),), aliases="first", facts=own)
    writes = tuple((index, each.name) for index, each in arguments if each.alias_info and each.alias_info.is_write)
    other_writes, condition = _conditional_writes(facts)
    aliases: tuple[int, ...] | str = "none"
    if any("maybe_aliasing" in str(tag) for tag in tags_of(target)):
        # A tag marks `dropout` and similar operators. They return their input unchanged where nothing is to be done.
        aliases = "all"
    elif "mutates" in facts:  # `set_` gives its tensor the memory of another, which no schema says
        aliases = "all"
    elif any(each.alias_info for each in schema.returns):
        aliases = tuple(index for index, each in arguments if each.alias_info)
    return Effects(
        kinds=("random",) * ("random" in facts or torch.Tag.nondeterministic_seeded in tags_of(target))
        + ("collective",) * ("collective" in own),
        condition=facts.get("random_if"),
        writes=writes or other_writes,
        writes_condition=None if writes else condition,
        aliases=aliases,
        facts=own,
    )


def module_effects(module: torch.nn.Module) -> Effects:
    """Return the effects of a called module, including the modules inside it."""
    kind: Any = type(module)  # mypy takes the class for unhashable
    traits = layer_traits(kind)
    if not module._modules and (traits.is_inert or (traits.is_inert_in_eval and not module.training)):
        return _inert_layer_effects(kind, module.__dict__.get("inplace") is True)
    if module._modules:
        parts = list(module.modules())
        draws, updates = any(map(draws_randomly, parts)), any(map(updates_state, parts))
        # A user's module may pass its input to any of its parts. A module of torch.nn writes its input only itself.
        is_inplace = any(map(works_in_place, [module] if traits.is_of_torch else parts))
    else:
        draws, updates, is_inplace = draws_randomly(module), updates_state(module), works_in_place(module)
    return _effects_of_class(type(module), draws, updates, is_inplace)


@functools.cache  # of the layers of torch.nn
def _inert_layer_effects(cls: type, is_inplace: bool) -> Effects:
    return _effects_of_class(cls, False, False, is_inplace)


def _effects_of_class(cls: type, draws: bool, updates: bool, is_inplace: bool) -> Effects:
    facts = layer_traits(cls).facts
    return Effects(
        kinds=("random",) * draws + ("state",) * updates,
        writes=((0, "input"),) if is_inplace else (),
        aliases="none" if "non_aliasing" in facts and not is_inplace else "all",
        facts=facts,
    )


def _aliases(facts: Facts, otherwise: str) -> str:
    return "none" if "non_aliasing" in facts else otherwise


def _conditional_writes(facts: Facts) -> tuple[tuple[ArgumentPlace, ...], Condition | None]:
    written, condition = facts.get("writes_if", ((), None))
    return tuple((position, name) for position, name in written), condition


def holds(condition: Condition | None, args: Any, kwargs: Any) -> bool:
    """Return whether the condition of an effect may hold in a call: only a literal false argument rules it out."""
    if condition is None:
        return True
    position, names, default = condition
    value = args[position] if len(args) > position else next((kwargs[key] for key in names if key in kwargs), default)
    return not (isinstance(value, bool | int | float) and not value) and value is not None


def argument_at(place: ArgumentPlace, args: Any, kwargs: Any) -> Any:
    """Return the argument at a place; None if the call leaves it out."""
    position, name = place
    return args[position] if len(args) > position else kwargs.get(name)


def first_argument(args: Any, kwargs: Any) -> Any:
    """Return the first argument of a call of torch, also if it is given as `input=`."""
    return args[0] if args else kwargs.get("input")
