"""State beside a model that its code reaches: attributes of classes, enclosed variables, containers in globals."""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from fxcore.state.containers import LIBRARIES, REGISTRIES, is_plain
from fxcore.state.readings import Reading

_HOOKS = tuple(name for name, role in REGISTRIES.items() if role == "hooks" and name.endswith("hooks"))
_GLOBALS = frozenset({list, dict, set, deque, torch.Tensor, torch.Generator})
_FUNCTIONS = frozenset({types.FunctionType, types.MethodType, functools.partial})


class OuterState:
    """The attributes of the classes of some modules, and the variables that functions, methods and hooks enclose."""

    def __init__(self, modules: Iterable[tuple[str, nn.Module]], functions: Iterable[Any] = ()) -> None:
        """Look at the classes and hooks of `modules`, and at further `functions`."""
        self.readings: list[Reading] = []
        self.values: list[tuple[str, Any]] = []  # to follow, by path
        self._seen: set[int] = set()
        kinds: dict[type, None] = {}
        known: set[type] = set()
        for path, module in modules:
            if type(module) not in known:
                known.add(type(module))
                kinds.update(dict.fromkeys(type(module).__mro__))
            attributes = vars(module)
            if not _FUNCTIONS.isdisjoint(map(type, attributes.values())):
                for value in attributes.values():
                    if type(value) in _FUNCTIONS:
                        self._add_function(path, value)
            if any(map(attributes.get, _HOOKS)):  # few modules have hooks
                for hooks in filter(None, map(attributes.get, _HOOKS)):
                    for hook in hooks.values():
                        self._add_function(path, hook)
        for kind in kinds:
            if str(kind.__module__).partition(".")[0] not in LIBRARIES:
                self._add_class(kind)
        for function in functions:
            self._add_function(getattr(function, "__name__", ""), function)

    def _add_class(self, kind: type) -> None:
        self.readings.append(
            Reading(kind.__qualname__, "class", kind, lambda: Attributes(vars(kind)), lambda held: held.give_to(kind))
        )
        for name, value in vars(kind).items():
            if isinstance(value, types.FunctionType):
                self._add_function(kind.__qualname__, value)
            elif not name.startswith("__") and not is_plain(value) and not callable(value):
                self.values.append((f"{kind.__qualname__}.{name}", value))

    def _add_function(self, path: str, function: Any) -> None:
        """Save the variables that a function encloses, follow its globals, and the owner of a method."""
        while isinstance(function, (functools.partial, types.MethodType)):
            if isinstance(function, functools.partial):
                self.values += [(path, each) for each in (*function.args, *function.keywords.values())]
                function = function.func
            else:
                self.values.append((path, function.__self__))
                function = function.__func__
        if not isinstance(function, types.FunctionType):
            self.values.append((path, function))  # an object with __call__
            return
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if type(value) in _GLOBALS:
                self.values.append((name, value))
        for name in _assigned_globals(function.__code__):
            if (key := hash((id(function.__globals__), name))) not in self._seen:
                self._seen.add(key)
                self.readings.append(_reading_of_global(name, function.__globals__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            if name != "__class__" and id(cell) not in self._seen and (content := list(_content(cell))):
                self._seen.add(id(cell))
                self.readings.append(_reading_of_cell(f"{path}.{name}", cell))
                if isinstance(content[0], types.FunctionType):
                    self._add_function(path, content[0])
                elif not is_plain(content[0]):
                    self.values.append((f"{path}.{name}", content[0]))


class Attributes:
    """The attributes of a class, equal if they are the same objects."""

    def __init__(self, attributes: Any) -> None:
        self.held = dict(attributes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes) or self.held.keys() != other.held.keys():
            return False
        return all(value is other.held[name] for name, value in self.held.items())

    __hash__ = None  # type: ignore[assignment]  # nobody looks it up

    def give_to(self, kind: type) -> None:
        """Give a class these attributes, and no others."""
        for name in vars(kind).keys() - self.held.keys():
            type.__delattr__(kind, name)
        for name, value in self.held.items():
            if vars(kind).get(name) is not value:
                type.__setattr__(kind, name, value)


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # the enclosing function has not assigned the variable
        return


@functools.lru_cache(maxsize=8192)
def _assigned_globals(code: types.CodeType) -> tuple[str, ...]:
    found = [_assigned_globals(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    if dis.opmap["STORE_GLOBAL"] in code.co_code:
        found.append(tuple([each.argval for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"]))
    return tuple(itertools.chain.from_iterable(found))


def _reading_of_global(name: str, names: dict[str, Any]) -> Reading:
    def read() -> Attributes:
        return Attributes({"": names[name]} if name in names else {})

    def write(held: Attributes) -> None:
        if held.held:
            names[name] = held.held[""]
        else:
            names.pop(name, None)

    return Reading(name, "variable", (name,), read, write)


def _reading_of_cell(path: str, cell: types.CellType) -> Reading:
    def write(held: Attributes) -> None:
        cell.cell_contents = held.held[""]

    return Reading(path, "variable", cell, lambda: Attributes({"": cell.cell_contents}), write)
