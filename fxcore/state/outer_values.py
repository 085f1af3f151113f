"""Values beside the inputs that a trace read and a graph holds as constants: attributes, globals, the environment.

Each call of the graph asks whether these values are as they were. Objects are held weakly: a graph does not keep its
model alive, and asks no more once the model is gone.
"""

from __future__ import annotations

import contextlib
import contextvars
import dis
import enum
import functools
import linecache
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxcore.state.changes import MISSING
from fxcore.state.containers import LIBRARIES, PLAIN, names_of, shown

_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE
NO_RAW = object()  # stands for a value that may change its parts
_MOST_PARTS = 200  # of one container; of a larger container only the length counts
_NUMBERS = frozenset((float, complex))  # NaN is the same as NaN, and -0.0 is another number than 0.0
_ITEMS = (list, tuple, deque)
_SETS = (set, frozenset)
_DATA = (nn.Module, torch.Tensor, torch.Generator, *_ITEMS, *_SETS, dict, enum.Enum, functools.partial)
_REFERRED = frozenset((type, types.FunctionType))  # held weakly, because a closure may hold the model


class WatchedObject:
    """An object of a user's class, and the values of the attributes that the trace read of it."""

    def __init__(self, value: Any, text: str = "") -> None:
        self.kind, self.text = type(value), text
        self._reference = reference_to(value)
        self.read: dict[str, Any] = {}  # frozen values

    def __eq__(self, other: object) -> bool:
        """Return whether both are one object, or another object gives the answers that this object gave."""
        if not isinstance(other, WatchedObject) or other.kind is not self.kind:
            return False
        found = other._reference()
        return found is self._reference() or all(
            expected == frozen(getattr(found, name, MISSING)) for name, expected in self.read.items()
        )

    __hash__ = None  # type: ignore[assignment]  # nobody looks it up

    def is_object(self, value: Any) -> bool:
        """Return whether a value is the very object."""
        return value is not None and value is self._reference()


def reference_to(value: Any) -> Callable[[], Any]:
    """Return a function that gives an object, or None once it is gone. An object without weak references stays."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def is_watched_class(kind: type) -> bool:
    """Return whether a class is a user's own, with attributes that a trace can see being read."""
    return _is_of_user(kind) and takes_attributes(kind)


def _is_of_user(kind: type) -> bool:
    is_library = str(kind.__module__).partition(".")[0] in LIBRARIES
    return not (is_library or kind in PLAIN or issubclass(kind, (*_DATA, BaseException, type)))


def takes_attributes(kind: Any) -> bool:
    """Return whether a class takes new attributes: a class in Python, without a metaclass that refuses them."""
    is_mutable = bool(kind.__flags__ & _HEAP_TYPE) and not kind.__flags__ & _IMMUTABLE_TYPE
    metaclass: Any = type(kind)
    return is_mutable and metaclass.__setattr__ is type.__setattr__


def frozen(value: Any, known: Mapping[int, WatchedObject] | None = None) -> Any:
    """Return a value to compare with later: plain values with their types, containers with their parts.

    `known` are watched objects by id. Of tensors, large arrays, modules and objects of libraries, the class
    alone counts.
    """
    return _frozen(value, known or {}, [_MOST_PARTS])


def _frozen(value: Any, known: Mapping[int, WatchedObject], left: list[int]) -> Any:
    kind = type(value)
    left[0] -= 1
    if kind in _NUMBERS:
        return kind, repr(value)
    if kind in _REFERRED:
        return weakref.ref(value)
    if kind is types.MethodType:
        return kind, value.__func__, id(value.__self__)
    if isinstance(value, (*_ITEMS, *_SETS, dict)):
        if len(value) > left[0]:
            return kind, len(value)
        if isinstance(value, _SETS):
            return kind, {repr(part) for part in value}
        if isinstance(value, dict):
            return kind, [(_frozen(key, known, left), _frozen(part, known, left)) for key, part in dict.items(value)]
        return kind, [_frozen(part, known, left) for part in value]
    if kind in PLAIN or isinstance(value, enum.Enum):
        return kind, value
    if kind.__module__ == "numpy" and hasattr(value, "tolist") and value.size <= left[0] and value.dtype != object:
        return kind, f"{value.tolist()} of {value.dtype}"
    if isinstance(value, functools.partial):
        return kind, [_frozen(part, known, left) for part in (value.func, value.args, value.keywords)]
    if is_watched_class(kind):
        return known.get(id(value)) or WatchedObject(value)
    # Classes without reads to see: of the standard library, or with a metaclass that refuses new attributes.
    if kind is contextvars.ContextVar:
        with contextlib.suppress(LookupError):  # without a value
            return _frozen(value.get(), known, left)
        return kind
    if isinstance(value, threading.local):
        return kind, _frozen(vars(value), known, left)
    if kind.__name__ in ("SimpleNamespace", "Namespace") or (_is_of_user(kind) and hasattr(value, "__dict__")):
        return kind, _frozen(names_of(value), known, left)
    return kind


def shown_frozen(value: Any) -> str:
    """Return a frozen value for a message. An object is shown with the attributes that the trace read."""
    if isinstance(value, WatchedObject):
        read = [f"{name}={shown_frozen(each)}" for name, each in value.read.items()]
        return f"{value.kind.__name__}({', '.join(read)})"
    if isinstance(value, type):
        return "missing" if value is type(MISSING) else f"a {value.__name__}"
    if isinstance(value, weakref.ref):
        return getattr(value(), "__qualname__", "a function that is gone")
    kind, held = value
    if isinstance(held, tuple):  # the attributes of an object without reads to see
        return f"{kind.__name__}({shown_frozen(held)})"
    if isinstance(held, set):
        return f"{{{', '.join(sorted(held))}}}"
    if kind in _NUMBERS or not isinstance(held, list):
        return str(held) if kind in _NUMBERS else shown(held)
    if issubclass(kind, dict):
        return f"{{{', '.join([f'{shown_frozen(key)}: {shown_frozen(part)}' for key, part in held])}}}"
    return f"[{', '.join(map(shown_frozen, held))}]" if kind is list else f"({', '.join(map(shown_frozen, held))})"


def is_immutable(value: Any) -> bool:
    """Return whether the same object has the same parts at any time, and holds no model."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_immutable, value))
    if kind is types.FunctionType:
        return value.__closure__ is None
    return (kind in PLAIN and kind is not types.MethodType) or isinstance(value, enum.Enum) or value is MISSING


# Holders: partials of `held_by` and `given`. Their first argument is a reference, or the mapping.


class Attributes:
    """The attributes of a class, of a function, or of an object with slots, as a mapping."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute that the class or the object itself has."""
        if not isinstance(self.value, type):
            return getattr(self.value, name, default)
        found = names_of(self.value).get(name, default)
        return getattr(found, "behind_watch", found)  # a trace in another thread may watch the attribute


class TensorFacts:
    """The dtypes and devices of a module's own parameters and buffers, as a mapping: `weight.dtype`."""

    __slots__ = ("value",)

    def __init__(self, value: nn.Module) -> None:
        self.value = value

    def get(self, name: str, default: Any) -> Any:
        """Return a fact of the tensor that the module holds now."""
        held, _, fact = name.rpartition(".")
        for registry in ("_parameters", "_buffers"):
            tensor = vars(self.value)[registry].get(held)
            if tensor is not None:
                return getattr(tensor, fact)
        return default


def held_by(reference: Callable[[], Any], names: Callable[[Any], Any]) -> Any:
    """Return a mapping by Attributes, TensorFacts, `names_of` or `cells_of` of an object; None once it is gone."""
    found = reference()
    return None if found is None else names(found)


def cells_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the variables that a function encloses."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    return found


def given(names: Any) -> Any:
    """Hold the globals of a module, or the environment."""
    return names


@dataclass(eq=False)
class OuterValue:
    """A value that the trace read under a name of a holder: an object, a class, a function, globals."""

    holder: Any  # a partial that gives a mapping of the names of its holder, or None if the holder is gone
    name: str
    text: str  # for messages
    expected: Any  # frozen
    raw: Any  # the value itself if it is immutable, else NO_RAW
    codes: list[types.CodeType]  # that read the value, or name it
    line: int = 0  # 0 if the code names the value and may not have read it
    loads: tuple[str, ...] = ()  # how instructions begin that read such a value

    def shown_change(self, found: Any) -> tuple[str, str]:
        """Return the expected and the present value for a message."""
        now = frozen(found)
        if isinstance(now, WatchedObject) and isinstance(self.expected, WatchedObject):
            now.read = {name: frozen(getattr(found, name, MISSING)) for name in self.expected.read}
        texts = shown_frozen(self.expected), shown_frozen(now)
        expected, present = [text if len(text) <= 80 else f"{text[:77]}..." for text in texts]
        return expected, present

    def differs(self, found: Any) -> bool:
        """Return whether a value is another one than the trace read, and the code does read the value."""
        if found is self.raw or (isinstance(self.expected, WatchedObject) and self.expected.is_object(found)):
            return False
        now = frozen(found)
        return self.expected != now and bool(self.line_of_read()) and not self._has_grown(now)

    def _has_grown(self, now: Any) -> bool:
        """Return whether a dict has new items alone, and the code that reads the dict adds items: it is a cache."""
        expected = self.expected
        if not (isinstance(expected, tuple) and isinstance(now, tuple) and issubclass(now[0], dict)):
            return False
        if now[0] is not expected[0] or not any(map(_adds, self.codes)):
            return False
        held, found = expected[1], now[1]
        if isinstance(held, int) or isinstance(found, int):
            return isinstance(held, int)
        keys = [key for key, _ in held]
        return bool([pair for pair in found if pair[0] in keys] == held)

    @property
    def place(self) -> str:
        """The place that read the value: `file:line: source text`."""
        line, file = self.line_of_read(), self.codes[0].co_filename
        source = linecache.getline(file, line).strip()
        return f"{file}:{line}" + (f": {source}" if source else "")

    def line_of_read(self) -> int:
        """Return the line of the code that reads the value; 0 if the code has only another thing of this name."""
        while not self.line and self.codes:
            self.line = _line_that_reads(self.codes[0], self.name, self.loads)
            if not self.line:
                del self.codes[0]
        return self.line


def _adds(code: types.CodeType) -> bool:
    """Return whether some code stores items of containers."""
    return dis.opmap["STORE_SUBSCR"] in code.co_code[::2] or not {"setdefault", "update"}.isdisjoint(code.co_names)


def _line_that_reads(code: types.CodeType, name: str, loads: tuple[str, ...]) -> int:
    for item in dis.get_instructions(code):
        if item.argval == name and item.opname.startswith(loads):
            starts = [line for start, _, line in code.co_lines() if start <= item.offset and line]
            return starts[-1] if starts else code.co_firstlineno
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return next(filter(None, (_line_that_reads(each, name, loads) for each in inner)), 0)


class OuterValues:
    """The outer values of one graph."""

    def __init__(self, values: Iterable[OuterValue]) -> None:
        self.values = list(values)
        # References to modules and objects with names, the very values, and the records: one loop compares identities.
        quick: dict[int, tuple[Any, list[tuple[str, Any, OuterValue]]]] = {}
        self._slow: list[OuterValue] = []
        for each in self.values:
            if each.holder.args[1:] == (names_of,) and each.raw is not NO_RAW:
                reference = each.holder.args[0]
                quick.setdefault(id(reference), (reference, []))[1].append((each.name, each.raw, each))
            else:
                self._slow.append(each)
        self._quick = list(quick.values())

    def __len__(self) -> int:
        return len(self.values)

    def first_change(self) -> tuple[OuterValue, Any] | None:
        """Return the first value that has changed, and the present value; None if all are as they were."""
        for reference, named in self._quick:
            value = reference()
            if value is not None:
                held = names_of(value)
                for name, raw, each in named:
                    if held.get(name, MISSING) is not raw and each.differs(found := held.get(name, MISSING)):
                        return each, found
        for each in self._slow:
            names = each.holder()
            if names is not None and each.differs(found := names.get(each.name, MISSING)):
                return each, found
        return None
