"""What attributes lead to beside tensors and modules of their own: containers, objects, arrays, modules in lists.

Nothing of the user's is called on the way: neither properties nor `==`, `len()` or iteration of subclasses.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import operator
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.nested_values import shown

# Values without parts, which most attributes are.
PLAIN = frozenset(
    (
        *(type(None), type(NotImplemented), type(...), bool, int, float, complex, str, bytes, range, slice, type),
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.CodeType),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, torch.Generator),
    )
)
# Objects of these lead to whole libraries, or keep caches of their own.
LIBRARIES = frozenset((*sys.stdlib_module_names, "torch", "fxcore", "numpy", "pytest", "_pytest")) - {"test"}
# Of a model that refers to a data set or a trainer not everything can be watched.
_MOST_VALUES = 10_000
MISSING = object()


def is_plain(value: object) -> bool:
    """Tell whether a value has no parts that could change."""
    kind = type(value)
    return kind in PLAIN or (kind is tuple and all(type(part) in PLAIN for part in value))  # type: ignore[attr-defined]


class Container:
    """A container, or an object with attributes, and what it held."""

    __slots__ = ("_before", "_ids", "_keys", "path", "value")

    def __init__(self, path: str, value: Any) -> None:
        self.path, self.value = path, value
        self._keys, self._before = _content_of(value)
        self._ids = [*map(id, self._before)]

    def is_unchanged(self) -> bool:
        """Tell whether it holds the same objects in the same order."""
        keys, values = _content_of(self.value)
        return [*map(id, values)] == self._ids and _same_keys(self._keys, keys)

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield what it held, each with its path."""
        steps = range(len(self._before)) if self._keys is None else self._keys
        for step, value in zip(steps, self._before, strict=True):
            yield self._path_of(step), value

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the path of each part that is another object now, with both objects; MISSING where one is not there."""
        keys, values = _content_of(self.value)
        if isinstance(self.value, set):
            if {*map(id, values)} != {*self._ids}:
                yield self.path, set(self._before), set(values)
            return
        expected, obtained = _by_key(self._keys, self._before), _by_key(keys, values)
        if list(expected) != list(obtained) and expected.keys() == obtained.keys():
            in_order = [[key for key, _ in parts.values()] for parts in (expected, obtained)]
            yield self.path, in_order[0], in_order[1]
        for identity, (key, before) in expected.items():
            _, now = obtained.get(identity, (None, MISSING))
            if now is not before:
                yield self._path_of(key), before, now
        for identity, (key, now) in obtained.items():
            if identity not in expected and not self._is_cache(key):
                yield self._path_of(key), MISSING, now

    def restore(self) -> None:
        """Give it back what it held."""
        container, values = self.value, self._before
        if isinstance(container, list):
            list.clear(container)
            list.extend(container, values)
        elif isinstance(container, deque):
            deque.clear(container)
            deque.extend(container, values)
        elif isinstance(container, set):
            set.clear(container)
            set.update(container, values)
        else:
            _restore_named(container, dict(zip(self._keys or (), values, strict=True)))

    def _is_cache(self, name: Any) -> bool:
        """Tell whether an attribute is what a cached property keeps: reading it changed nothing."""
        is_object = not isinstance(self.value, (dict, list, deque))
        return is_object and isinstance(getattr(type(self.value), name, None), functools.cached_property)

    def _path_of(self, key: Any) -> str:
        if isinstance(self.value, (dict, list, deque)):
            return f"{self.path}[{shown(key)}]"
        return f"{self.path}.{key}" if self.path else str(key)


def _restore_named(container: Any, content: dict[Any, Any]) -> None:
    if isinstance(container, OrderedDict):
        OrderedDict.clear(container)
        OrderedDict.update(container, content)
    elif isinstance(container, dict):
        dict.clear(container)
        dict.update(container, content)
    else:
        for name in _content_of(container)[0] or ():
            if name not in content:
                object.__delattr__(container, name)
        for name, value in content.items():
            object.__setattr__(container, name, value)


def _content_of(container: Any) -> tuple[list[Any] | None, list[Any]]:
    """List the keys of a container, None where it has none, and its values."""
    if isinstance(container, list):
        return None, list.copy(container)
    if isinstance(container, OrderedDict):
        return list(OrderedDict.keys(container)), list(OrderedDict.values(container))
    if isinstance(container, dict):
        return list(dict.keys(container)), list(dict.values(container))
    if isinstance(container, deque):
        return None, list(deque.__iter__(container))
    if isinstance(container, set):
        return None, list(set.__iter__(container))
    attributes = {**_attributes(container), **_slots(container)}
    return list(attributes), list(attributes.values())


def _attributes(value: object) -> dict[str, Any]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # none, or a property of the user's that raises
        return {}
    return attributes if type(attributes) is dict else {}


def _slots(value: object) -> dict[str, Any]:
    found = {}
    for kind in type(value).__mro__:
        for name, member in kind.__dict__.items() if "__slots__" in kind.__dict__ else ():
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # a slot that was never set
                    found[name] = member.__get__(value)
    return found


def _same_keys(expected: list[Any] | None, obtained: list[Any] | None) -> bool:
    if expected is None or obtained is None:
        return expected is obtained
    if len(expected) != len(obtained):
        return False
    return all(map(operator.is_, expected, obtained)) or (
        all(type(key) is str for key in (*expected, *obtained)) and expected == obtained
    )


def _by_key(keys: list[Any] | None, values: list[Any]) -> dict[Any, tuple[Any, Any]]:
    """Map keys, or the identity of those whose hash or == is the user's, to key and value."""
    named = enumerate(values) if keys is None else zip(keys, values, strict=True)
    return {(key if type(key) in PLAIN else (id(key),)): (key, value) for key, value in named}


class Array:
    """An array of numpy and a copy of its values."""

    __slots__ = ("_before", "_facts", "path", "value")

    def __init__(self, path: str, value: Any) -> None:
        self.path, self.value = path, value
        self._facts, self._before = _facts_of(value), value.copy()

    def is_unchanged(self) -> bool:
        """Tell whether it has the same values, shape and dtype."""
        return _facts_of(self.value) == self._facts and bool(self.value.tobytes() == self._before.tobytes())

    def restore(self) -> None:
        """Write the values back; an array that another object needs unchanged keeps its shape."""
        try:
            if self.value.dtype != self._before.dtype:
                self.value.dtype = self._before.dtype
            if self.value.shape != self._before.shape:
                self.value.resize(self._before.shape, refcheck=False)
            self.value[...] = self._before
        except (ValueError, TypeError, AttributeError):
            pass  # read-only, or a view: what changed it did not write through this object alone


def _facts_of(array: Any) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.strides


class HeldValues:
    """All that some values lead to, each with the path under which it was found first."""

    def __init__(self, known: Callable[[object], bool] = lambda value: False) -> None:
        """Leave out what is `known`, and what only that leads to."""
        self.containers: list[Container] = []
        self.arrays: list[Array] = []
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.modules: list[tuple[str, nn.Module]] = []
        self._known = known
        self._seen: dict[int, object] = {}  # keeps them alive, so that no other object gets the id
        self._left = _MOST_VALUES

    def follow(self, path: str, value: Any) -> None:
        """Find everything that a value leads to; a module or tensor is listed and not entered."""
        waiting = [(path, value)]
        while waiting:
            path, value = waiting.pop()
            if is_plain(value) or id(value) in self._seen or self._left <= 0 or self._known(value):
                continue
            self._seen[id(value)] = value
            self._left -= 1
            waiting.extend(reversed(list(self._parts(path, value))))

    def _parts(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            self.tensors.append((path, value))
        elif isinstance(value, nn.Module):
            self.modules.append((path, value))
        elif isinstance(value, tuple):
            yield from ((f"{path}[{index}]", part) for index, part in enumerate(tuple.__iter__(value)))
        elif _is_array(value):
            self.arrays.append(Array(path, value))
        elif isinstance(value, (list, dict, set, deque)) or _has_own_attributes(value):
            self.containers.append(container := Container(path, value))
            yield from container.parts()


def _has_own_attributes(value: object) -> bool:
    """Tell whether a value is an object of the user's, whose attributes may be changed."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    if str(kind.__module__).partition(".")[0] in LIBRARIES or isinstance(value, (enum.Enum, BaseException, type)):
        return False
    return bool(_attributes(value) or _slots(value))


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")  # who holds an array has imported it
    return numpy is not None and isinstance(value, numpy.ndarray)
