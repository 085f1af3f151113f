"""The attributes of many modules as they were, and putting them back."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import nn

# Of a graph module only these are put back: what else it holds is its compiled code, which a lane cannot harm.
_STATE_ATTRIBUTES = ("training", "_parameters", "_buffers", "_modules")


class SavedModules:
    """Modules, their attributes, and what those of them that are dicts, lists and sets held.

    All of it is compared after each call, so the comparison is one walk over everything that runs in C.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[nn.Module, dict[str, Any]]] = {}
        # Most hooks and buffers of most modules are none, before and after: those are asked in one go.
        self._empty: list[Any] = []
        self._sequences: list[tuple[Any, Any]] = []
        self._mappings: list[dict[Any, Any]] = []
        self._copies: list[dict[Any, Any]] = []
        self._keys: list[Any] = []  # those of all copies, one after the other
        self._values: list[Any] = []

    def include(self, modules: Iterable[nn.Module]) -> None:
        """Keep some more modules; what is known already stays as it was first seen."""
        known = len(self._copies)
        for module in modules:
            if id(module) not in self._held:
                self._keep(module)
        self._keys += chain.from_iterable(self._copies[known:])
        self._values += _values_of(self._copies[known:])

    def _keep(self, module: nn.Module) -> None:
        now = module.__dict__
        held = now.copy()
        self._held[id(module)] = module, held
        self._mappings.append(now)
        self._copies.append(held)
        for value in held.values():
            if isinstance(value, dict):
                if value:
                    self._mappings.append(value)
                    self._copies.append(value.copy())
                else:
                    self._empty.append(value)
            elif isinstance(value, (list, set)):
                self._sequences.append((value, value.copy()))

    def are_intact(self) -> bool:
        """Tell whether all modules hold the very objects that they held."""
        values = list(_values_of(self._mappings))
        return (
            len(values) == len(self._values)
            and all(map(operator.is_, values, self._values))
            and list(chain.from_iterable(self._mappings)) == self._keys
            and not any(self._empty)
            and all(_holds(container, content) for container, content in self._sequences)
        )

    def differing(self) -> list[tuple[nn.Module, str]]:
        """List the attributes that hold another object, are gone or new, or hold a dict, list or set of other content.

        Of graph modules nothing is told: they keep their compiled code in attributes.
        """
        contents = {
            id(container): (container, content)
            for container, content in [*zip(self._mappings, self._copies, strict=True), *self._sequences]
        }
        contents.update({id(container): (container, type(container)) for container in self._empty if container})
        found = []
        for module, held in self._held.values():
            if _is_graph_module(module):
                continue
            now = module.__dict__
            for name in {**held, **now}:
                is_same = name in held and name in now and held[name] is now[name]
                if not is_same or _has_other_content(contents.get(id(now[name]))):
                    found.append((module, name))
        return found

    def restore(self) -> None:
        """Give all modules back what they held, in the order they held it."""
        kept: set[int] = set()
        for module, held in self._held.values():
            kept |= _restore_attributes(module, held)
        for container in self._empty:
            if container and id(container) in kept:
                container.clear()
        for container, content in [*zip(self._mappings, self._copies, strict=True), *self._sequences]:
            if id(container) in kept and not _holds(container, content):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)


def _has_other_content(pair: tuple[Any, Any] | None) -> bool:
    """Tell it of a container and what it held; of one that was empty, and is no more, there is only the type."""
    return pair is not None and (isinstance(pair[1], type) or not _holds(*pair))


def _values_of(mappings: list[dict[Any, Any]]) -> Iterable[Any]:
    return chain.from_iterable(map(dict.values, mappings))


def _restore_attributes(module: nn.Module, held: dict[str, Any]) -> set[int]:
    """Bind the attributes of a module anew, and give the ids of the objects that it is meant to hold."""
    now = module.__dict__
    if _is_graph_module(module):
        held = {name: held[name] for name in _STATE_ATTRIBUTES if name in held}
    elif list(now) != list(held):
        now.clear()
    now.update(held)
    return set(map(id, held.values()))


def _holds(container: Any, content: Any) -> bool:
    """Tell whether a container holds the very objects that it held; equality would compare tensors."""
    if len(container) != len(content):
        return False
    if isinstance(container, set):
        return bool(container == content)
    if isinstance(container, dict):
        return list(container) == list(content) and all(map(operator.is_, container.values(), content.values()))
    return all(map(operator.is_, container, content))


def _is_graph_module(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or any(
        kind.__name__ == "GraphModule" for kind in type(module).__mro__
    )
