"""Containers, objects and modules with the contents that they held: compared by identity, named and restored.

No code of the user runs on the way: no property, no `==`, no `len()` and no iteration of a subclass.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import torch
from torch import nn

from fxcore.state.changes import MISSING, Change

# Values without parts. Nearly every attribute is one of these.
PLAIN = frozenset(
    (
        *(type(None), type(NotImplemented), type(...), bool, int, float, complex, str, bytes, range, slice, type),
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.CodeType),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    )
)
# Objects of these packages lead to whole libraries, or keep caches of their own.
LIBRARIES = frozenset((*sys.stdlib_module_names, "torch", "fxcore", "numpy", "pytest", "_pytest")) - {"test"}

# The role of the contents of a module's dicts: the name of each dict that every module has, with a role.
REGISTRIES = {name: "hooks" for name, value in vars(nn.Module()).items() if isinstance(value, dict)}
REGISTRIES.update(_parameters="parameter", _buffers="buffer", _modules="module")

# Containers without keys, and their methods that add items.
_FILL: dict[Any, Any] = {list: list.extend, deque: deque.extend, set: set.update}
# Attributes of a graph module with an underscore are compiled code, which no run changes, except for these.
_STATE_OF_GRAPH = ("_parameters", "_buffers", "_modules")


def is_plain(value: object) -> bool:
    """Return whether a value has no parts that could change."""
    kind = type(value)
    return kind in PLAIN or (kind is tuple and all(type(part) in PLAIN for part in value))  # type: ignore[attr-defined]


def shown(value: object, width: int = 60) -> str:
    """Return a value's repr, cut to `width`; the value's type if it has no repr."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print numbers of thousands of digits
        text = f"<int of {value.bit_length()} bits>" if isinstance(value, int) else f"<{type(value).__qualname__}>"
    except Exception:
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= width else f"{text[: width - 3]}..."


class Container:
    """A container, or an object with attributes, and the contents that it held.

    `role` is "attribute" for the `__dict__` of a module, "graph" for the `__dict__` of a graph module, "class" for the
    functions of a class, and a role of `REGISTRIES` for a dict of a module.
    """

    __slots__ = ("_keys", "_values", "path", "role", "value")

    def __init__(self, path: str, value: Any, role: str = "", saved: dict[str, Any] | None = None) -> None:
        """Save the contents of `value`; `saved` are contents that were saved before."""
        self.path, self.value, self.role = path, value, role
        self._keys, self._values = self._contents(value if saved is None else saved)

    def is_unchanged(self) -> bool:
        """Return whether the container holds the same objects in the same order; a set has no order."""
        keys, values = self._contents(self.value)
        if isinstance(self.value, set):
            return {*map(id, values)} == {*map(id, self._values)}
        return len(values) == len(self._values) and all(map(operator.is_, values, self._values)) and (
            _same_keys(self._keys, keys)
        )  # fmt: skip

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield each object that the container held, with its path."""
        steps = range(len(self._values)) if self._keys is None else self._keys
        for step, value in zip(steps, self._values, strict=True):
            yield self._path_of(step), value

    def changes(self) -> Iterator[Change]:
        """Yield a change for each part that is another object now, and for another order of the parts."""
        keys, values = self._contents(self.value)
        if isinstance(self.value, set) or self.role == "hooks":
            if not self.is_unchanged():
                before = set(self._values) if keys is None else dict(zip(self._keys or (), self._values, strict=True))
                yield Change(self.path, "held", before, set(values) if keys is None else dict(self.value))
            return
        expected, obtained = _by_key(self._keys, self._values), _by_key(keys, values)
        for identity, (key, before) in expected.items():
            _, now = obtained.get(identity, (None, MISSING))
            if now is not before:
                yield self._change(key, before, now)
        for identity, (key, now) in obtained.items():
            if identity not in expected and not self._is_cache(key):
                yield self._change(key, MISSING, now)
        if isinstance(self.value, dict) and self.role not in ("attribute", "graph"):
            earlier, later = ([key for identity, (key, _) in one.items() if identity in other]
                           for one, other in ((expected, obtained), (obtained, expected)))  # fmt: skip
            if not _same_keys(earlier, later):
                yield Change(self.path, "order", earlier, later, self.role)

    def _change(self, key: Any, before: Any, after: Any) -> Change:
        return Change(self._path_of(key), "function" if self.role == "class" else "held", before, after, self.role)

    def restore(self) -> None:
        """Give the container back its contents."""
        container = self.value
        for kind, fill in _FILL.items():
            if isinstance(container, kind):
                kind.clear(container)
                fill(container, self._values)
                return
        self._restore_named(container, dict(zip(self._keys or (), self._values, strict=True)))

    def _restore_named(self, container: Any, content: dict[Any, Any]) -> None:
        keys, values = self._contents(container)
        if isinstance(container, dict):
            kind: Any = OrderedDict if isinstance(container, OrderedDict) else dict
            # Present keys are not hashed, because a proxy among them has no trace any more.
            if self.role == "graph":
                for name in keys or ():
                    if name not in content:
                        del container[name]
            elif not _same_keys(self._keys, keys):
                kind.clear(container)
            kind.update(container, content)
            return
        now = dict(zip(keys or (), values, strict=True))
        # Not the object's own setattr(), because the user may have written it.
        owner = type if self.role == "class" else object
        for name in now.keys() - content.keys():
            owner.__delattr__(container, name)
        for name, value in content.items():
            if now.get(name, MISSING) is not value:
                owner.__setattr__(container, name, value)

    def _contents(self, container: Any) -> tuple[list[Any] | None, list[Any]]:
        """Return the keys of a container, None if it has no keys, and the values."""
        if isinstance(container, dict):
            if self.role == "graph":
                kept = [name for name in container if name in _STATE_OF_GRAPH or not name.startswith("_")]
                return kept, list(map(container.get, kept))
            kind: Any = OrderedDict if isinstance(container, OrderedDict) else dict
            return list(kind.keys(container)), list(kind.values(container))
        for kind in _FILL:
            if isinstance(container, kind):
                return None, list(kind.__iter__(container))
        attributes = functions_of(container) if self.role == "class" else attributes_of(container)
        return list(attributes), list(attributes.values())

    def _is_cache(self, name: Any) -> bool:
        """Return whether a cached property keeps its value in an attribute: reading the property changed nothing."""
        is_object = not isinstance(self.value, (dict, list, deque))
        return is_object and isinstance(getattr(type(self.value), name, None), functools.cached_property)

    def _path_of(self, key: Any) -> str:
        if isinstance(self.value, (dict, list, deque)) and not self.role:
            return f"{self.path}[{shown(key)}]"
        return f"{self.path}.{key}" if self.path else str(key)


def names_of(value: object) -> dict[str, Any]:
    """Return the `__dict__` of an object, past a `__getattribute__` of its class."""
    names: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return names


def attributes_of(value: object) -> dict[str, Any]:
    """Return the attributes of an object, with the slots that are set."""
    try:
        found = names_of(value)
    except Exception:  # no attributes, or a property of the user that raises
        found = {}
    found = dict(found) if type(found) is dict else {}
    for kind in type(value).__mro__:
        for name, member in kind.__dict__.items() if "__slots__" in kind.__dict__ else ():
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # a slot that was never set
                    found[name] = member.__get__(value)
    return found


def functions_of(kind: type) -> dict[str, Any]:
    """Return the functions, methods and properties of a class itself."""
    descriptors = (staticmethod, classmethod, property)
    return {
        name: member
        for name, member in vars(kind).items()
        if isinstance(member, descriptors) or (callable(member) and not isinstance(member, type))
    }


def _same_keys(expected: list[Any] | None, obtained: list[Any] | None) -> bool:
    if expected is None or obtained is None:
        return expected is obtained
    if len(expected) != len(obtained):
        return False
    return all(map(operator.is_, expected, obtained)) or (
        all(type(key) in (str, int) for key in (*expected, *obtained)) and expected == obtained
    )


def _by_key(keys: list[Any] | None, values: list[Any]) -> dict[Any, tuple[Any, Any]]:
    """Map keys to key and value; a key whose hash or `==` is the user's counts by its identity."""
    named = enumerate(values) if keys is None else zip(keys, values, strict=True)
    return {(key if type(key) in PLAIN else (id(key),)): (key, value) for key, value in named}


class Containers:
    """Many containers, and the classes of modules, compared in one walk that runs in C."""

    def __init__(self) -> None:
        self._modules: list[tuple[str, nn.Module]] = []
        self._classed: list[nn.Module] = []  # no graph modules: new code gives a graph module a new class
        self._classes: list[type] = []
        self._mappings: list[dict[str, Any]] = []  # the `__dict__` of each module, and its dicts
        self._copies: list[dict[str, Any]] = []  # of the mappings, in their order
        self._places: list[tuple[str, str]] = []  # path and role of each mapping
        # 9 of the 12 dicts of a module are empty before and after: one any() asks all of them.
        self._empty: list[dict[str, Any] | None] = []
        self._keys: list[Any] = []  # of all copies, one after the other
        self._values: list[Any] = []
        self._others: list[Container] = []
        self._known: set[int] = set()  # ids

    def add_modules(self, modules: Iterable[tuple[str, nn.Module]]) -> None:
        """Save modules by path: attributes, registries and class. A known module keeps its first contents."""
        start = len(self._copies)
        for path, module in modules:
            attributes = module.__dict__
            if id(attributes) in self._known:
                continue
            self._modules.append((path, module))
            is_graph = is_graph_module(module)
            self._add_mapping(path, "graph" if is_graph else "attribute", attributes)
            registries = list(map(attributes.get, REGISTRIES))
            self._empty += [registry for registry in registries if not registry]
            for name, registry in zip(REGISTRIES, registries, strict=True):
                if registry and isinstance(registry, dict):
                    self._add_mapping(path, name, registry)
            if not is_graph:
                self._classed.append(module)
                self._classes.append(type(module))
        self._keys += chain.from_iterable(self._copies[start:])
        self._values += chain.from_iterable(map(dict.values, self._copies[start:]))

    def _add_mapping(self, path: str, role: str, mapping: dict[str, Any]) -> None:
        self._known.add(id(mapping))
        self._mappings.append(mapping)
        self._copies.append(mapping.copy())
        self._places.append((path, role))

    def add(self, containers: Iterable[Container]) -> None:
        """Save other containers. A known container keeps its first contents."""
        for container in containers:
            if id(container.value) not in self._known:
                self._known.add(id(container.value))
                self._others.append(container)

    def are_unchanged(self) -> bool:
        """Return whether all containers hold the same objects, and all modules have the same class."""
        values = list(chain.from_iterable(map(dict.values, self._mappings)))
        return (
            len(values) == len(self._values)
            and all(map(operator.is_, values, self._values))
            and list(chain.from_iterable(self._mappings)) == self._keys
            and not any(self._empty)
            and list(map(type, self._classed)) == self._classes
            and all(container.is_unchanged() for container in self._others)
        )

    def changes(self) -> Iterator[Change]:
        """Yield the changes of classes and contents."""
        paths = {id(module): path for path, module in self._modules}
        for module, kind in zip(self._classed, self._classes, strict=True):
            if type(module) is not kind:
                yield Change(paths[id(module)], "class", kind, type(module))
        for container in self._all():
            yield from container.changes()

    def others_changed(self) -> list[Container]:
        """Return the containers, not of modules, that hold other objects now."""
        return [container for container in self._others if not container.is_unchanged()]

    def restore(self) -> None:
        """Give all modules their classes and all containers their contents back, in the saved order."""
        for module, kind in zip(self._classed, self._classes, strict=True):
            if type(module) is not kind:
                module.__class__ = kind
        for container in list(self._all()):
            if not container.is_unchanged():
                container.restore()

    def _all(self) -> Iterator[Container]:
        for (path, role), mapping, saved in zip(self._places, self._mappings, self._copies, strict=True):
            yield _container_of_module(path, role, mapping, saved)
        filled = {id(mapping) for mapping in self._empty if mapping}
        for path, module in self._modules if filled else ():
            for name in REGISTRIES:
                registry = module.__dict__.get(name)
                if registry is not None and id(registry) in filled:
                    yield _container_of_module(path, name, registry, {})
        yield from self._others


def _container_of_module(path: str, name: str, mapping: dict[str, Any], saved: dict[str, Any]) -> Container:
    """Return the container for the `__dict__` of a module, or for one of its dicts by name."""
    role = REGISTRIES.get(name, name)
    return Container(path if role != "hooks" else f"{path}.{name}" if path else name, mapping, role, saved)


def is_graph_module(module: nn.Module) -> bool:
    """Return whether a module keeps compiled code in attributes, as graph modules and scripted modules do."""
    if type(module).__module__.startswith("torch.nn.modules."):  # a quick answer for most modules
        return False
    return isinstance(module, torch.jit.ScriptModule) or any(
        kind.__name__ == "GraphModule" for kind in type(module).__mro__
    )
