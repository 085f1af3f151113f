"""Facts about the code of functions: comparisons with `is`, uses of a value, and the functions that code may call."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
from collections.abc import Collection, Iterable, Iterator
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
_READS_ONE = ("BINARY_S", "LOAD_", "UNPACK_SEQUENCE")
_HANDS_ON = ("LIST_APPEND", "MAP_ADD", "SET_ADD", "BUILD_", "YIELD_", "STORE_SUBSCR")
_VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST_LOAD")
_NO_USES = (*_VARIABLES[:3], *_CONSTANT_LOADS, *_COPIES, "PUSH_NULL", "KW_NAMES", "SWAP", "JUMP_")
_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_ENDS = ("STORE_", "POP_TOP", "RETURN_")
_WINDOW = 64  # bytes before a comparison that load what is compared; reading an instruction takes 10 microseconds


class CodeFacts(NamedTuple):
    """Facts about one code object and the functions that are defined inside it."""

    names: frozenset[str]  # of globals and attributes
    compared_with_none: frozenset[Any]  # variables, attributes and keys: `mask is None`, `batch["mask"] is not None`
    compared_constants: frozenset[Any]  # True, False, and the last names of others: `dtype is torch.float32`
    compares_results: bool  # those of calls and operations, with None
    compares_values: bool  # `key is query`
    has_patterns: bool  # `match` with patterns of classes, sequences or mappings

    def joined(self, other: CodeFacts) -> CodeFacts:
        """Return the facts about two code objects together."""
        return CodeFacts(
            self.names | other.names,
            self.compared_with_none | other.compared_with_none,
            self.compared_constants | other.compared_constants,
            self.compares_results or other.compares_results,
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
    has_patterns = not _PATTERNS.isdisjoint(operations)
    found = CodeFacts(frozenset(code.co_names), none - {None}, constants, None in none, values, has_patterns)
    return functools.reduce(CodeFacts.joined, map(facts_of_code, _codes_inside(code)), found)


def _codes_inside(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


def _comparisons(code: CodeType) -> tuple[frozenset[Any], frozenset[Any], bool]:
    """Return the values that are compared with None, the other constants, and whether two values are compared.

    None stands for the result of a call or an operation.
    """
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
                if any(map(_is_none, loads)):  # `None is mask`
                    none.add(operand)
    return frozenset(none), frozenset(constants), compares_values


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


def reachable_functions(
    starts: Iterable[tuple[FunctionType, type | None]], held: Collection[type] = ()
) -> list[Reached]:
    """Return the functions that may run when others run, themselves included, as far as names tell.

    `starts` are functions, and the class of a method; `held` are classes of objects whose methods they may call.
    Functions of the standard library and of torch are left out.
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
            unvisited += _named(function)
            names = facts_of_code(function.__code__).names
            unvisited += [(each, owner) for each in _methods(owner, names)]
            unvisited += [each for kind in held for each in _of_object(kind, names)]
    return list(found.values())


def function_behind(target: Any) -> Any:
    """Return what a bound method or a partial call calls in the end, and any other callable as it is."""
    while isinstance(target, (functools.partial, MethodType)):
        target = target.func if isinstance(target, functools.partial) else target.__func__
    return target


def functions_in(value: Any) -> list[Any]:
    """Return the functions, bound methods and partial calls that a value is, or holds as a dict, list or tuple."""
    parts = dict.values(value) if isinstance(value, dict) else value if type(value) in (list, tuple) else (value,)
    return [each for each in parts if isinstance(each, _FUNCTIONS)]


def _unwrapped(function: Any) -> tuple[FunctionType, ...]:
    """Return a function, that of a bound method or a partial call, and the function that it decorates."""
    function = function_behind(function)
    if not isinstance(function, FunctionType):
        function = inspect.unwrap(function) if hasattr(function, "__wrapped__") else None
    if not isinstance(function, FunctionType):
        return ()
    inner = inspect.unwrap(function)
    return (function, inner) if isinstance(inner, FunctionType) and inner is not function else (function,)


def _named(function: FunctionType) -> Iterator[tuple[Reached, type | None]]:
    """Yield the functions with global names, in modules, classes and objects with these names, and in closures."""
    names, held = facts_of_code(function.__code__).names, function.__globals__
    yield from [(each, None) for each in _looked_up(held, names)]
    for value in [held.get(name) for name in names]:
        if isinstance(value, ModuleType):
            yield from [(each, None) for each in _looked_up(vars(value), names)]
        elif isinstance(value, (dict, list, tuple)):
            yield from [(Reached(each), None) for item in functions_in(value) for each in _unwrapped(item)]
        elif value is not None:
            yield from _of_object(value, names)
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        yield from [(Reached(each), None) for each in _unwrapped(value)]
        yield from _of_object(value, names)


def _of_object(value: Any, names: frozenset[str]) -> list[tuple[Reached, type | None]]:
    kind = value if isinstance(value, type) else type(value)
    return [(each, kind) for each in _methods(kind, names | {"__call__"})]


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


class Uses(NamedTuple):
    """The uses of a value in code, directly and through the local variables that get the value."""

    is_compared: bool  # with None
    is_handed_on: bool  # to a new container
    is_returned: bool
    attributes: frozenset[str]  # that are set to it
    called: frozenset[str]  # names of the functions that get it; `.append` is a method, `[]` an item of a container


@functools.lru_cache(maxsize=1024)  # a trace asks at each item of a container
def uses_at(code: CodeType, offset: int) -> Uses:
    """Return the uses of the value that the instruction at an offset reads."""
    return _uses_behind(code, [instructions_from(code, offset)[0]])


@functools.lru_cache(maxsize=1024)
def uses_of(code: CodeType, name: Any) -> Uses:
    """Return the uses of a variable. The uses of a parameter end where the code stores another value in it."""
    loads = _loads_of(code, name)
    if name in parameters_of(code):
        stores = [each.offset for each in instructions_from(code, 0) if name in _stored_by([each])]
        loads = [each for each in loads if each.offset < min(stores, default=sys.maxsize)]
    return _uses_behind(code, loads)


def is_placed(code: CodeType, offset: int) -> bool:
    """Return whether the instruction at an offset tells the variable that gets its value, or reads one item."""
    running = instructions_from(code, offset)[0]
    in_loop = running.opname == "FOR_ITER" and bool(stored_names(code, offset))
    return in_loop or running.opname.startswith(_READS_ONE) or running.argrepr == "[]"  # from Python 3.14 on


def _uses_behind(code: CodeType, readings: Iterable[dis.Instruction]) -> Uses:
    unvisited, seen = list(readings), set[str]()
    consumers: list[dis.Instruction] = []
    while unvisited:
        consumer = _consumer(code, unvisited.pop())
        if consumer is not None and consumer.opname.startswith("BUILD_"):  # `return x, mask`
            behind = _consumer(code, consumer)
            consumer = behind if behind is not None and behind.opname == "RETURN_VALUE" else consumer
        if consumer is None:
            continue
        consumers.append(consumer)
        for name in set(_stored_by(instructions_from(code, consumer.offset))) - seen:
            seen.add(name)
            unvisited += _loads_of(code, name)
    names = [each.opname for each in consumers]
    return Uses(
        any(_asks_for_none(code, each) for each in consumers),
        any(name.startswith(_HANDS_ON) for name in names),
        "RETURN_VALUE" in names,
        frozenset(each.argval for each in consumers if each.opname == "STORE_ATTR"),
        frozenset(_called_name(code, each) for each in consumers if each.opname.startswith("CALL")),
    )


def _asks_for_none(code: CodeType, item: dis.Instruction) -> bool:
    is_comparison = item.opcode == _IS and any(map(_is_none, _loads_before(code, item.offset)))
    return is_comparison or item.opcode in _NONE_JUMPS


def _is_none(load: dis.Instruction) -> bool:
    return load.opname == "LOAD_CONST" and load.argval is None


def _loads_of(code: CodeType, name: Any) -> list[dis.Instruction]:
    loads = [each for each in instructions_from(code, 0) if each.opname.startswith(_VARIABLES)]
    return [each for each in loads if name in (each.argval if isinstance(each.argval, tuple) else (each.argval,))]


def _called_name(code: CodeType, call: dis.Instruction) -> str:
    """Return the name of a called function: `name`, `.name` for a method, `[]` for an item of a container."""
    start = _source(call)[:2]
    loads = [each for each in instructions_from(code, 0) if each.offset < call.offset and _source(each)[:2] == start]
    if any(each.opname == "BINARY_SUBSCR" or each.argrepr == "[]" for each in loads):
        return "[]"
    dotted = [each.argval for each in loads if each.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER"))]
    names = [each.argval for each in loads if isinstance(each.argval, str)]
    if dotted:
        return f".{dotted[-1]}"
    return names[0] if names and start else ""


def _consumer(code: CodeType, reading: dis.Instruction) -> dis.Instruction | None:
    """Return the instruction that uses the value that another reads: that of the expression around it, or a store."""
    following = instructions_from(code, reading.offset)[1:]
    for item in following:
        is_end = item is following[0] or item.opname.startswith(_ENDS)
        if (is_end or _encloses(item, reading)) and not item.opname.startswith(_NO_USES):
            return item
    return None


def _encloses(outer: dis.Instruction, inner: dis.Instruction) -> bool:
    around, within = _source(outer), _source(inner)
    return bool(around and within and around[:2] <= within[:2] and within[2:] <= around[2:])


def _source(item: dis.Instruction) -> tuple[int, ...]:
    """Return the first line and column of an instruction's source, and the last; nothing before Python 3.11."""
    found = getattr(item, "positions", None)
    if found is None or None in found:
        return ()
    return (found.lineno, found.col_offset, found.end_lineno, found.end_col_offset)


@functools.lru_cache(maxsize=1024)
def stored_names(code: CodeType, offset: int) -> tuple[Any, ...]:
    """Return the names that the results of the instruction at an offset are stored in: `a, b = ...`, `for a in ...`."""
    following = [item for item in instructions_from(code, offset)[1:] if item.opname not in _COPIES]
    while following and following[0].opname == "JUMP_FORWARD":  # `mask = batch["mask"] if "mask" in batch else None`
        following = instructions_from(code, following[0].argval)
    return _stored_by(following)


def _stored_by(following: Iterable[dis.Instruction]) -> tuple[Any, ...]:
    found: list[Any] = []
    for item in itertools.takewhile(lambda each: each.opname.startswith("STORE_"), following):
        if item.opname.startswith("STORE_FAST_") and isinstance(item.argval, tuple):
            found += item.argval if item.opname.startswith("STORE_FAST_STORE") else item.argval[:1]
        else:
            found.append(item.argval)
    return tuple(found)
