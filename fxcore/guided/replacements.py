"""The one table of functions that a trace with an example replaces: of torch, numpy, Python and their libraries.

Each file that records calls lists its replacements. They are made once for all traces, because traces in several
threads share them. The trace's Patcher takes them back.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from fxcore.guided import higher_order, input_questions, modes, numpy_calls, recorded_calls, recorded_transforms
from fxcore.tracing.patching import Patcher, Replacement
from fxcore.tracing.recorded_functions import fill_lists_of_torch

_SOURCES = (modes, recorded_calls, higher_order, recorded_transforms, numpy_calls, input_questions)
_LIBRARIES = ("torch.", "numpy", "einops.")


def install(patcher: Patcher) -> None:
    """Let the trace of `patcher` record calls of the functions in the table."""
    for holder, functions in _by_holder(_loaded_modules()):
        patcher.replace_all(holder, functions)


def install_in(patcher: Patcher, names: dict[str, Any]) -> None:
    """Let code with these globals record calls of functions that its module imported by name."""
    input_questions.patch_types(patcher, names)
    replacements = _by_original(_loaded_modules())
    if str(names.get("__name__")).startswith(_LIBRARIES) or replacements.keys().isdisjoint(map(id, names.values())):
        return
    found = {name: replacements[id(value)] for name, value in list(names.items()) if id(value) in replacements}
    patcher.replace_all(names, found)


@functools.cache
def table() -> tuple[Replacement, ...]:
    """Return all replacements. The last one for a name counts."""
    return tuple([each for source in _SOURCES for each in source.replacements()])


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset([each.owner for each in table() if isinstance(each.owner, str)])


def _loaded_modules() -> frozenset[str]:
    return frozenset([name for name in _modules() if name in sys.modules])  # sys.modules has thousands


def _rows(loaded: frozenset[str]) -> list[Replacement]:
    """Return the part of the table that this torch, and the imported modules, have."""
    of_modules = [each for each in table() if each.owner in loaded and each.name in each.holder]
    of_classes = [each for each in table() if isinstance(each.owner, type) and hasattr(each.owner, each.name)]
    return [*of_modules, *of_classes]


@functools.cache
def _by_holder(loaded: frozenset[str]) -> list[tuple[Any, dict[str, Any]]]:
    """Return classes and dicts of globals, each with its replacements. `loaded` are the imported modules."""
    fill_lists_of_torch()
    module = torch.nn.Module
    found: dict[type | str, tuple[Any, dict[str, Any]]] = {module: (module, dict(modes.TRAINING))}
    for each in _rows(loaded):
        if each.is_in_place:
            found.setdefault(each.owner, (each.holder, {}))[1][each.name] = each.pair()[1]
    return list(found.values())


@functools.cache
def _by_original(loaded: frozenset[str]) -> dict[int, Any]:
    """Return the replacements of functions by the id of the original."""
    rows = [each for each in _rows(loaded) if isinstance(each.owner, str)]
    found = {id(original): made for original, made in [each.pair() for each in rows]}
    if "numpy" in loaded:
        made = {each.name: each.pair()[1] for each in rows if each.owner == "numpy"}
        found[id(sys.modules["numpy"])] = numpy_calls.recording_numpy(made)
    return found
