"""What modules hold: attributes, the contents of containers, and their order; compared and given back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from torch import nn

from pytest_fxgraph.equivalence.state.held_values import MISSING, Array, Container
from pytest_fxgraph.equivalence.state.module_state import ModuleState, is_graph_module

# Of a graph module these are restored, and what has no underscore: the rest is compiled code, which no run changes.
_STATE_ATTRIBUTES = ("training", "_parameters", "_buffers", "_modules")

_DICTS_OF_EVERY_MODULE = tuple([name for name, value in vars(nn.Module()).items() if isinstance(value, dict)])

# A path, the object that was there and the one that is there now; MISSING for none.
AttributeChange = tuple[str, Any, Any]


class SavedModules:
    """The attributes of modules, their classes, and the contents of all containers that attributes lead to.

    All of it is compared after each call; the comparison is one walk that runs in C.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[nn.Module, dict[str, Any]]] = {}
        self._paths: dict[int, str] = {}
        # Most dicts of most modules (hooks, buffers) are empty before and after: one any() asks all of them.
        self._empty: list[Any] = []
        self._mappings: list[dict[Any, Any]] = []
        self._copies: list[dict[Any, Any]] = []  # of the mappings, in their order
        self._keys: list[Any] = []  # of all copies, one after the other
        self._values: list[Any] = []
        self._registered: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # of these, all but the modules' __dict__
        self._lists: list[list[Any]] = []  # every convolution has one
        self._lengths: list[int] = []
        self._items: list[Any] = []  # of all lists, one after the other
        self._modules: list[nn.Module] = []  # but graph modules, whose class is made anew with their code
        self._classes: list[type] = []
        self._nested: list[Container | Array] = []
        self._slow: list[Container | Array] = []  # those of them that are no lists
        self._known: set[int] = set()  # ids of the containers

    def include(self, state: ModuleState) -> None:
        """Save more modules; a module that is known keeps what was saved first."""
        known = len(self._copies)
        for path, module in state.modules:
            if id(module) not in self._held:
                self._paths[id(module)] = path
                self._save(module)
        self._keys += chain.from_iterable(self._copies[known:])
        self._values += _values_of(self._copies[known:])
        found: list[Container | Array] = [*state.held.containers, *state.held.arrays]
        for nested in found:
            if id(nested.value) not in self._known:
                self._known.add(id(nested.value))
                self._nested.append(nested)
                if type(nested.value) is list:
                    self._lists.append(nested.value)
                    self._lengths.append(len(nested.value))
                    self._items += nested.value
                else:
                    self._slow.append(nested)

    def _save(self, module: nn.Module) -> None:
        now = module.__dict__
        held = now.copy()
        self._held[id(module)] = module, held
        self._mappings.append(now)
        self._copies.append(held)
        for name in _DICTS_OF_EVERY_MODULE:  # others are among the nested containers
            value = held.get(name)
            if isinstance(value, dict):
                if value:
                    self._mappings.append(value)
                    self._copies.append(copied := value.copy())
                    self._registered.append((value, copied))
                else:
                    self._empty.append(value)
        if not is_graph_module(module):
            self._modules.append(module)
            self._classes.append(type(module))

    def are_unchanged(self) -> bool:
        """Tell whether all modules hold the same objects as when they were saved."""
        values = list(_values_of(self._mappings))
        return (
            len(values) == len(self._values)
            and all(map(operator.is_, values, self._values))
            and list(chain.from_iterable(self._mappings)) == self._keys
            and not any(self._empty)
            and list(map(type, self._modules)) == self._classes
            and list(map(len, self._lists)) == self._lengths
            and all(map(operator.is_, chain.from_iterable(self._lists), self._items))
            and all(nested.is_unchanged() for nested in self._slow)
        )

    def changed_attributes(self) -> Iterator[AttributeChange]:
        """Yield what is another object now, or is in another order; of arrays and containers, what is in them.

        Attributes in which graph modules keep their compiled code are left out.
        """
        for module, kind in zip(self._modules, self._classes, strict=True):
            if type(module) is not kind:
                yield f"the class of {self._paths[id(module)] or 'the model'}", kind, type(module)
        contents = {id(container): content for container, content in self._registered}
        contents.update((id(container), {}) for container in self._empty)
        for module, held in self._held.values():
            now, path = module.__dict__, self._paths[id(module)]
            prefix = f"{path}." if path else ""
            names = _restored_of_graph(held) if is_graph_module(module) else {**held, **now}
            for name in names:
                before, after = held.get(name, MISSING), now.get(name, MISSING)
                if before is not after:
                    yield prefix + name, before, after
                elif id(before) in contents and not _holds_same(before, contents[id(before)]):
                    yield prefix + name, contents[id(before)], dict(before)
        for nested in self._nested:
            if isinstance(nested, Container):
                yield from nested.changes()
            elif not nested.is_unchanged():
                yield nested.path, nested.value, nested.value

    def restore(self) -> None:
        """Give all modules their attributes back, in the saved order, and containers their contents."""
        for module, kind in zip(self._modules, self._classes, strict=True):
            if type(module) is not kind:
                module.__class__ = kind
        for module, held in self._held.values():
            _restore_attributes(module, held)
        for container in self._empty:
            if container:
                container.clear()
        for container, content in self._registered:
            if not _holds_same(container, content):
                container.clear()
                container.update(content)
        for nested in self._nested:
            if not nested.is_unchanged():
                nested.restore()


def _values_of(mappings: list[dict[Any, Any]]) -> Iterable[Any]:
    return chain.from_iterable(map(dict.values, mappings))


def _restore_attributes(module: nn.Module, held: dict[str, Any]) -> None:
    now = module.__dict__
    if is_graph_module(module):
        held = _restored_of_graph(held)
    elif list(now) != list(held):
        now.clear()
    now.update(held)


def _restored_of_graph(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name in _STATE_ATTRIBUTES or not name.startswith("_")}


def _holds_same(container: dict[Any, Any], content: dict[Any, Any]) -> bool:
    """Tell whether a dict holds the same objects in the same order; comparing with == would compare tensors."""
    return (
        len(container) == len(content)
        and list(container) == list(content)
        and all(map(operator.is_, container.values(), content.values()))
    )
