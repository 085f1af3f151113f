"""Random generators of a model's own: attributes of its modules, arguments in its graph."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

# The states of those generators that were used, by the generator's name.
GeneratorStates = Mapping[str, Any]


class OwnGenerators:
    """Random generators that modules hold or a graph names, with the states in which they were first seen."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, Any, Any]] = {}

    def include(self, root: object, modules: Iterable[tuple[str, nn.Module]]) -> None:
        """Save the states of a model's or graph's generators; known ones keep the state that was saved first.

        `modules` are those of `root` by path.
        """
        for name, generator in _generators_of(root, modules):
            if id(generator) not in self._known:
                self._known[id(generator)] = name, generator, _state_of(generator)

    def changed(self) -> GeneratorStates:
        """Return the present states of the generators that were used since."""
        now = [(name, _state_of(generator), before) for name, generator, before in self._known.values()]
        return {name: state for name, state, before in now if state != before}

    def restore(self) -> None:
        """Set all generators back to the saved states."""
        for _, generator, state in self._known.values():
            _set_state(generator, state)


def _generators_of(root: object, modules: Iterable[tuple[str, nn.Module]]) -> Iterator[tuple[str, Any]]:
    kinds = _kinds()
    for path, module in modules:
        held = module.__dict__
        if kinds.isdisjoint(map(type, held.values())):
            continue
        for name, value in held.items():
            if type(value) in kinds:
                yield (f"the generator {path}.{name}" if path else f"the generator {name}"), value
    for node in getattr(getattr(root, "graph", None), "nodes", ()):
        value = node.kwargs.get("generator")
        if type(value) in kinds:
            yield f"the generator of node {node.name}", value


def _kinds() -> frozenset[type]:
    # Where numpy was never imported, nobody can hold one of its generators.
    numpy = sys.modules.get("numpy")
    of_numpy = (numpy.random.Generator, numpy.random.RandomState) if numpy is not None else ()
    return frozenset((torch.Generator, random.Random, *of_numpy))


def _state_of(generator: Any) -> Any:
    """Return the state as a value that can be kept and compared."""
    if isinstance(generator, torch.Generator):
        return bytes(generator.get_state().tolist())
    if isinstance(generator, random.Random):
        return generator.getstate()
    return _comparable(_bits_of(generator).state)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(torch.tensor(list(state), dtype=torch.uint8))
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        _bits_of(generator).state = state


def _bits_of(generator: Any) -> Any:
    return getattr(generator, "bit_generator", None) or generator._bit_generator


def _comparable(state: Any) -> Any:
    """Turn numpy's arrays into lists, which compare as a whole."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tolist() if hasattr(state, "tolist") else state
