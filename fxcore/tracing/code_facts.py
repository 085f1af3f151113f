"""Facts about the code of functions: the values that it compares with `is`, and the functions that it may call."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from fxcore.tracing.call_site import NO_STEPS, instructions_from

_MOST_FUNCTIONS = 2000
_NOT_TRACED = frozenset({*sys.stdlib_module_names, "torch", "fxcore", "einops", "numpy"})
_NONE_JUMPS = frozenset(code for name, code in dis.opmap.items() if name.endswith(("IF_NONE", "IF_NOT_NONE")))
_PATTERNS = frozenset(code for name, code in dis.opmap.items() if name.startswith("MATCH_"))
_IS = dis.opmap["IS_OP"]
_CONSTANT_LOADS = ("LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_SMALL", "LOAD_COMMON")
_COPIES = ("COPY", "DUP_TOP")
_READS_ONE = ("BINARY_", "LOAD_", "UNPACK_SEQUENCE")
_HANDS_ON = ("LIST_APPEND", "MAP_ADD", "BUILD_", "YIELD_", "RETURN_VALUE")
_WINDOW = 64  # bytes before a comparison that load what is compared; reading an instruction takes 10 microseconds


class CodeFacts(NamedTuple):
    """Facts about one code object and the functions that are defined inside it."""

    names: frozenset[str]  # of globals and attributes
    compared_with_none: frozenset[Any]  # variables, attributes and keys: `mask is None`, `batch["mask"] is not None`
    compared_constants: frozenset[Any]  # True, False, and the last names of others: `dtype is torch.float32`
    compares_values: bool  # `key is query`
    has_patterns: bool  # `match` with patterns of classes, sequences or mappings

    def joined(self, other: CodeFacts) -> CodeFacts:
        """Return the facts about two code objects together."""
        return CodeFacts(
            self.names | other.names,
            self.compared_with_none | other.compared_with_none,
            self.compared_constants | other.compared_constants,
            self.compares_values or other.compares_values,
            self.has_patterns or other.has_patterns,
        )


@functools.lru_cache(maxsize=8192)
def facts_of_code(code: CodeType) -> CodeFacts:
    """Return the facts about a code object."""
    operations = frozenset(code.co_code[::2])
    none, constants, values = frozenset[Any](), frozenset[Any](), False
    if _IS in operations or not _NONE_JUMPS.isdisjoint(operations):
        none, constants, values = _comparisons(code)
    found = CodeFacts(
        frozenset(code.co_names), none, constants, values, has_patterns=not _PATTERNS.isdisjoint(operations)
    )
    return functools.reduce(CodeFacts.joined, map(facts_of_code, _codes_inside(code)), found)


def _codes_inside(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


def _comparisons(code: CodeType) -> tuple[frozenset[Any], frozenset[Any], bool]:
    """Return the values that are compared with None, the other constants, and whether two values are compared."""
    none: set[Any] = set()
    constants: set[Any] = set()
    compares_values = False
    for offset in range(0, len(code.co_code), 2):
        operation = code.co_code[offset]
        if operation in _NONE_JUMPS:
            none.add(_loaded_name(_loads_before(code, offset)))
        elif operation == _IS:
            loads = _loads_before(code, offset)
            operand, is_constant = _loaded_name(loads), _is_constant(loads)
            if operand is None and is_constant:
                none.add(_loaded_name(loads[:-1]))
            elif is_constant:
                constants.add(operand)
            else:
                compares_values = True
    return frozenset(none - {None}), frozenset(constants), compares_values


def _loads_before(code: CodeType, offset: int) -> list[dis.Instruction]:
    """Return the instructions right before an offset that load values."""
    part = code.replace(co_code=code.co_code[max(0, offset - _WINDOW) : offset], co_linetable=b"")
    loads: list[dis.Instruction] = []
    for item in dis.get_instructions(part):
        is_index = item.opname == "BINARY_OP" and item.argrepr == "[]"  # from Python 3.14 on
        is_stored = item.opname.startswith("STORE_") and bool(loads) and loads[-1].opname in _COPIES  # `:=`
        if is_index or is_stored or item.opname.startswith(("LOAD_", "BINARY_SUBSCR", "STORE_FAST_LOAD", *_COPIES)):
            loads.append(item)
        elif item.opname not in NO_STEPS:
            loads.clear()
    return loads


def _loaded_name(loads: list[dis.Instruction]) -> Any:
    """Return the name, or the key, of the value that was loaded last."""
    if not loads:
        return None
    last = loads[-1]
    if last.opname.startswith("BINARY_"):
        return _loaded_name(loads[:-1])
    return last.argval[-1] if isinstance(last.argval, tuple) and last.opname != "LOAD_CONST" else last.argval


def _is_constant(loads: list[dis.Instruction]) -> bool:
    """Return whether the value that was loaded last is a constant, or a global name with attributes."""
    for item in reversed(loads):
        if not item.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            return bool(item.opname.startswith(_CONSTANT_LOADS))
    return False


class Reached(NamedTuple):
    """A function that traced code may call, and the place where the code looks it up: globals, or a class."""

    function: FunctionType
    holder: Any = None
    name: str = ""


def reachable_functions(starts: Iterable[tuple[FunctionType, type | None]]) -> list[Reached]:
    """Return the functions that may run when others run, themselves included, as far as names tell.

    `starts` are functions, and the class of a method. Functions of the standard library and of torch are left out.
    """
    unvisited = [(Reached(each), owner) for function, owner in starts for each in _unwrapped(function)]
    found: dict[tuple[FunctionType, int, str], Reached] = {}
    seen: set[tuple[Any, Any]] = set()
    while unvisited and len(found) < _MOST_FUNCTIONS:
        reached, owner = unvisited.pop()
        function: Any = reached.function  # mypy takes it for a method
        if str(function.__module__).partition(".")[0] in _NOT_TRACED:
            continue
        found[function, id(reached.holder), reached.name] = reached
        if (function, owner) not in seen:
            seen.add((function, owner))
            unvisited += [(each, None) for each in _named(function)]
            unvisited += [(each, owner) for each in _methods(owner, facts_of_code(function.__code__).names)]
    return list(found.values())


def function_behind(target: Any) -> Any:
    """Return what a bound method or a partial call calls in the end, and any other callable as it is."""
    while isinstance(target, (functools.partial, MethodType)):
        target = target.func if isinstance(target, functools.partial) else target.__func__
    return target


def _unwrapped(function: Any) -> tuple[FunctionType, ...]:
    """Return a function, that of a bound method or a partial call, and the function that it decorates."""
    function = function_behind(function)
    if not isinstance(function, FunctionType):
        function = inspect.unwrap(function) if hasattr(function, "__wrapped__") else None
    if not isinstance(function, FunctionType):
        return ()
    inner = inspect.unwrap(function)
    return (function, inner) if isinstance(inner, FunctionType) and inner is not function else (function,)


def _named(function: FunctionType) -> Iterator[Reached]:
    """Yield the functions with global names, in modules with these names, and in closures."""
    names, held = facts_of_code(function.__code__).names, function.__globals__
    for name in names:
        value = held.get(name)
        if isinstance(value, ModuleType):
            yield from _looked_up(vars(value), names)
    yield from _looked_up(held, names)
    for cell in function.__closure__ or ():
        try:
            yield from map(Reached, _unwrapped(cell.cell_contents))
        except ValueError:  # an empty cell
            continue


def _methods(owner: type | None, names: frozenset[str]) -> Iterator[Reached]:
    for kind in () if owner is None else owner.__mro__:
        if kind.__module__.partition(".")[0] not in _NOT_TRACED:
            yield from _looked_up(kind, names)


def _looked_up(holder: Any, names: frozenset[str]) -> Iterator[Reached]:
    members = holder if isinstance(holder, dict) else vars(holder)
    for name in names:
        if name in members:
            for each in _unwrapped(members[name]):
                yield Reached(each, holder, name) if each is members[name] else Reached(each)


@functools.lru_cache(maxsize=1024)
def read_names(code: CodeType) -> frozenset[Any]:
    """Return the names of the variables that the code of a function, and of the functions in it, reads.

    A read of one item with a constant index or key does not count: `kwargs["mask"]`.
    """
    names = set(itertools.chain.from_iterable(each.co_freevars for each in _codes_inside(code)))
    instructions = [*instructions_from(code, 0), None, None]
    for item, second, third in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if item is not None and item.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            loaded = item.argval if isinstance(item.argval, tuple) else (item.argval,)
            names.update(loaded[:-1] if _is_index(second, third) else loaded)
    return frozenset(names)


def _is_index(key: dis.Instruction | None, operation: dis.Instruction | None) -> bool:
    if key is None or operation is None or not key.opname.startswith(("LOAD_CONST", "LOAD_SMALL")):
        return False
    return bool(operation.opname == "BINARY_SUBSCR" or operation.argrepr == "[]")


def parameters_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of the parameters of a function, without `*args` and `**kwargs`."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class Reading(NamedTuple):
    """What the code does with a value that an instruction reads."""

    is_placed: bool  # the instruction tells the variable that gets the value, or reads one item
    is_compared: bool  # with None, at once
    is_handed_on: bool  # to a new container, or to the caller
    is_returned: bool


@functools.lru_cache(maxsize=1024)  # a trace asks at each item of a container
def reading_at(code: CodeType, offset: int) -> Reading:
    """Return what the code does with the value that the instruction at an offset reads."""
    running, *behind = instructions_from(code, offset)[:2]
    following = behind[0] if behind else running
    in_loop = running.opname == "FOR_ITER" and bool(stored_names(code, offset))
    is_compared = following.opcode in _NONE_JUMPS or (following.opname == "LOAD_CONST" and following.argval is None)
    return Reading(
        in_loop or running.opname.startswith(_READS_ONE),
        is_compared,
        following.opname.startswith(_HANDS_ON),
        following.opname == "RETURN_VALUE",
    )


@functools.lru_cache(maxsize=1024)
def stored_names(code: CodeType, offset: int) -> tuple[Any, ...]:
    """Return the names that the results of the instruction at an offset are stored in: `a, b = ...`, `for a in ...`."""
    following = [item for item in instructions_from(code, offset)[1:] if item.opname not in _COPIES]
    while following and following[0].opname == "JUMP_FORWARD":  # `mask = batch["mask"] if "mask" in batch else None`
        following = instructions_from(code, following[0].argval)
    stores = itertools.takewhile(lambda item: item.opname.startswith("STORE_"), following)
    found: list[Any] = []
    for item in stores:
        if item.opname.startswith("STORE_FAST_") and isinstance(item.argval, tuple):
            found += item.argval if item.opname.startswith("STORE_FAST_STORE") else item.argval[:1]
        else:
            found.append(item.argval)
    return tuple(found)
