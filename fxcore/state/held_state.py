"""The objects that a model or some values hold at one time: tensors, modules, containers, arrays, generators."""

from __future__ import annotations

import enum
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxcore.state.containers import LIBRARIES, PLAIN, Container, attributes_of, is_graph_module, is_plain
from fxcore.state.readings import Reading, is_array, kinds_of_generators, reading_of_array, reading_of_generator
from fxcore.state.storage import ORDINARY, has_storage, is_readable, storage_of

# Attributes that every module has. No tensor is among them; the dicts among them hold the registered tensors.
OF_EVERY_MODULE = frozenset(vars(nn.Module()))

# A model that refers to a data set or a trainer leads to more objects than anybody can watch.
_MOST_VALUES = 10_000


class StateTensor(NamedTuple):
    """One tensor of a model or of some values."""

    name: str  # the path: "conv.weight"
    kind: str  # "parameter", "buffer", "attribute"; "" for a tensor outside of modules
    tensor: torch.Tensor
    # In a list, an object or a module that is not registered. A graph has no such name, but may have the same tensor.
    is_nested: bool = False

    @property
    def label(self) -> str:
        """Return the name for messages: "parameter conv.weight"."""
        return f"{self.kind} {self.name}".lstrip()


class HeldState:
    """All that a model, or some values, lead to, each object with its first path.

    No code of the user runs on the way.
    """

    def __init__(self, root: object = None, values: Iterable[tuple[str, Any]] = ()) -> None:
        """Look through the module `root`, and through `values` by name. A `root` that is no module holds nothing."""
        self.modules = modules_by_path(root)  # modules in lists and objects follow the registered ones
        self.tensors: list[StateTensor] = []
        self.containers: list[Container] = []
        self.readings: list[Reading] = []  # arrays and generators
        self.lazy: list[tuple[str, nn.Module]] = []  # names of parameters without shapes, with their modules
        self._hidden: list[tuple[str, nn.Module]] = []
        self._loose: list[tuple[str, torch.Tensor]] = []
        self._generators = kinds_of_generators()
        self._seen: dict[int, object] = {id(module): module for _, module in self.modules}  # keeps ids valid
        self._left = _MOST_VALUES
        for path, module in self.modules:
            self._list_tensors(path, module, is_nested=False)
        for path, value in values:
            self._follow(path, value)
        for path, hidden in self._hidden:  # grows while it is read
            below = [(f"{path}.{inner}" if inner else path, module) for inner, module in modules_by_path(hidden)]
            for inner, module in below:
                if module is hidden or id(module) not in self._seen:
                    self._seen[id(module)] = module
                    self.modules.append((inner, module))
                    self._list_tensors(inner, module, is_nested=True)
        known = {id(state.tensor) for state in self.tensors} if self._loose else set()
        kind = "attribute" if isinstance(root, nn.Module) else ""
        self.tensors += [
            StateTensor(path, kind, tensor, is_nested=True)
            for path, tensor in self._loose
            if id(tensor) not in known and not is_lazy(tensor) and is_readable(tensor)
        ]
        # The question costs a module that has no graph as much as all other questions together.
        graph = getattr(root, "graph", None) if not isinstance(root, nn.Module) or is_graph_module(root) else None
        nodes = getattr(graph, "nodes", ())
        for node in () if callable(nodes) else nodes:  # a scripted module has another kind of graph
            generator = node.kwargs.get("generator")
            if type(generator) in self._generators:
                self.readings.append(reading_of_generator(f"of node {node.name}", generator))

    def _list_tensors(self, path: str, module: nn.Module, *, is_nested: bool) -> None:
        prefix = f"{path}." if path else ""
        found = self.tensors
        for kind, attribute in (("parameter", "_parameters"), ("buffer", "_buffers")):
            entries = getattr(module, attribute, None)  # a transform may have removed it
            for name, value in entries.items() if entries else ():
                if type(value) in ORDINARY:  # a quick answer: the questions below take as long as all the rest
                    found.append(StateTensor(prefix + name, kind, value, is_nested))
                elif isinstance(value, torch.Tensor):
                    if is_lazy(value):
                        if not is_nested:
                            self.lazy.append((name, module))
                    elif is_readable(value):
                        found.append(StateTensor(prefix + name, kind, value, is_nested))
        for name, value in module.__dict__.items():
            if name in OF_EVERY_MODULE or type(value) in PLAIN:
                continue
            if isinstance(value, torch.Tensor):
                if is_readable(value):
                    found.append(StateTensor(prefix + name, "attribute", value, is_nested))
            elif is_plain(value):
                continue
            elif type(value) in self._generators or not (name.startswith("_") and is_graph_module(module)):
                # Other attributes of a graph module with an underscore are its code.
                self._follow(prefix + name, value)

    def _follow(self, path: str, value: Any) -> None:
        """Find each object that a value leads to; modules and tensors are only listed."""
        waiting = [(path, value)]
        while waiting:
            path, value = waiting.pop()
            if is_plain(value) or id(value) in self._seen or self._left <= 0:
                continue
            self._seen[id(value)] = value
            self._left -= 1
            waiting.extend(reversed(list(self._parts(path, value))))

    def _parts(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            self._loose.append((path, value))
        elif isinstance(value, nn.Module):
            self._hidden.append((path, value))
        elif isinstance(value, tuple):
            yield from ((f"{path}[{index}]", part) for index, part in enumerate(tuple.__iter__(value)))
        elif is_array(value):
            self.readings.append(reading_of_array(path, value))
        elif type(value) in self._generators:
            self.readings.append(reading_of_generator(path, value))
        elif isinstance(value, (list, dict, set, deque)) or _has_own_attributes(value):
            self.containers.append(container := Container(path, value))
            yield from container.parts()

    def in_storages_of(self, tensors: Iterable[torch.Tensor]) -> Mapping[int, list[StateTensor]]:
        """Return the tensors that share a storage with one of `tensors`, by the number that `storage_of` gives."""
        found: dict[int, list[StateTensor]] = {}
        by_storage = {storage_of(tensor): tensor for tensor in tensors if has_storage(tensor)}
        if not by_storage:
            return found
        spans = [_span(tensor) for tensor in by_storage.values()]
        low, high = min([start for start, _ in spans]), max([end for _, end in spans])
        for state in self.tensors:
            tensor = state.tensor
            # The address first, because a question for the storage takes ten times as long.
            if low and type(tensor) in ORDINARY and tensor.layout is torch.strided:
                address = tensor.data_ptr()
                if address and not low <= address < high:
                    continue
            if has_storage(tensor) and (storage := storage_of(tensor)) in by_storage:
                found.setdefault(storage, []).append(state)
        return found


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a storage and the end of the storage; 0 for fake tensors, where torch warns."""
    if type(tensor) not in ORDINARY:
        return 0, 0
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def modules_by_path(root: object) -> list[tuple[str, nn.Module]]:
    """List a module and all modules below it, under every path that leads to them; empty if `root` is no module."""
    found: list[tuple[str, nn.Module]] = []
    if isinstance(root, nn.Module):
        _list_modules("", root, found, set())
    return found


def _list_modules(path: str, module: nn.Module, found: list[tuple[str, nn.Module]], above: set[int]) -> None:
    found.append((path, module))
    children = getattr(module, "_modules", None)
    if not children:  # 4 of 5 modules are leaves
        return
    above.add(id(module))
    for name, child in children.items():
        if child is not None and id(child) not in above:  # a module may hold itself
            _list_modules(f"{path}.{name}" if path else name, child, found, above)
    above.discard(id(module))


def _has_own_attributes(value: object) -> bool:
    """Return whether a value is an object of the user with attributes."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    if str(kind.__module__).partition(".")[0] in LIBRARIES or isinstance(value, (enum.Enum, BaseException, type)):
        return False
    return bool(attributes_of(value))
