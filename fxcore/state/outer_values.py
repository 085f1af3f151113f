"""Values beside the inputs that a trace read and a graph holds as constants: attributes, globals, the environment.

Each call of the graph asks whether these values are as they were. Objects are held weakly: a graph does not keep its
model alive, and asks no more once the model is gone.
"""

from __future__ import annotations

import dis
import enum
import functools
import itertools
import linecache
import operator
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxcore.state.changes import MISSING
from fxcore.state.containers import LIBRARIES, PLAIN, shown

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
        """Return whether both are one object, or another object gives the same answers."""
        if not isinstance(other, WatchedObject) or other.kind is not self.kind:
            return False
        found = other._reference()
        return found is self._reference() or all(
            frozen(getattr(found, name, MISSING)) == expected for name, expected in self.read.items()
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
    is_library = str(kind.__module__).partition(".")[0] in LIBRARIES
    return not (is_library or kind in PLAIN or issubclass(kind, (*_DATA, BaseException, type)))


def frozen(value: Any, known: Mapping[int, WatchedObject] | None = None) -> Any:
    """Return a value to compare with later: plain values with their types, containers with their parts.

    `known` are watched objects by id. Of tensors, modules and objects of libraries, the class alone counts.
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
    if isinstance(value, functools.partial):
        return kind, [_frozen(part, known, left) for part in (value.func, value.args, value.keywords)]
    if is_watched_class(kind):
        return known.get(id(value)) or WatchedObject(value)
    if kind.__name__ in ("SimpleNamespace", "Namespace"):  # classes of the standard library, without reads to see
        return kind, _frozen(vars(value), known, left)
    return kind


def told(value: Any) -> str:
    """Return a value for a message."""
    return "missing" if value is MISSING else shown(value)


def is_immutable(value: Any) -> bool:
    """Return whether the same object has the same parts at any time, and holds no model."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_immutable, value))
    if kind is types.FunctionType:
        return value.__closure__ is None
    return (kind in PLAIN and kind is not types.MethodType) or isinstance(value, enum.Enum) or value is MISSING


@dataclass(eq=False)
class OuterValue:
    """A value that the trace read under a name of a holder: an object, a class, a function, globals."""

    holder: Callable[[], Any]  # gives a mapping of the names that the holder has, or None if the holder is gone
    name: str
    text: str  # for messages
    expected: Any  # frozen
    shown: str  # the value, for messages
    raw: Any  # the value itself if it is immutable, else NO_RAW
    code: types.CodeType  # that read the value, or names it
    line: int = 0  # 0 if the code names the value and may not have read it

    def differs(self, found: Any) -> bool:
        """Return whether a value is another one than the trace read, and the code does read the value."""
        if isinstance(self.expected, WatchedObject) and self.expected.is_object(found):
            return False
        return frozen(found) != self.expected and bool(self.line_of_read())

    @property
    def place(self) -> str:
        """The place that read the value: `file:line: source text`."""
        file, line = self.code.co_filename, self.line_of_read()
        source = linecache.getline(file, line).strip()
        return f"{file}:{line}" + (f": {source}" if source else "")

    def line_of_read(self) -> int:
        """Return the line of the code that reads the value; 0 if the code has only another thing of this name."""
        if not self.line:
            self.line = _line_that_reads(self.code, self.name)
        return self.line


def _line_that_reads(code: types.CodeType, name: str) -> int:
    line = code.co_firstlineno
    for item in dis.get_instructions(code):
        line = getattr(item.positions, "lineno", None) or item.starts_line or line if line else line
        if item.argval == name and item.opname.startswith("LOAD_"):
            return int(line)
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return next(filter(None, (_line_that_reads(each, name) for each in inner)), 0)


class OuterValues:
    """The outer values of one graph."""

    def __init__(self, values: Iterable[OuterValue]) -> None:
        self.values = list(values)
        by_holder: dict[Any, list[OuterValue]] = {}
        self._slow: list[OuterValue] = []
        for value in self.values:
            if value.raw is NO_RAW:
                self._slow.append(value)
            else:
                by_holder.setdefault(value.holder, []).append(value)
        # Per holder: one comparison by identity for all names.
        self._quick = [
            (holder, [each.name for each in group], [each.raw for each in group], group)
            for holder, group in by_holder.items()
        ]

    def __len__(self) -> int:
        return len(self.values)

    def first_change(self) -> tuple[OuterValue, Any] | None:
        """Return the first value that has changed, and the present value; None if all are as they were."""
        for holder, names, raws, group in self._quick:
            held = holder()
            if held is None or all(map(operator.is_, map(held.get, names, itertools.repeat(MISSING)), raws)):
                continue
            for index, each in enumerate(group):
                found = held.get(each.name, MISSING)
                if found is not raws[index] and each.differs(found):
                    return each, found
                raws[index] = found if is_immutable(found) else raws[index]
        for each in self._slow:
            held = each.holder()
            if held is not None and each.differs(found := held.get(each.name, MISSING)):
                return each, found
        return None
