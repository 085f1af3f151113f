"""Did a transform change the model it was given? Shapes, values, names, flags and settings, module by module."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.state_guard import StateGuard, state_tensors


class ModelWatch:
    """Remembers a model, names what changed in it, and puts it back."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._guard = StateGuard(model)
        self._tensors = [(state.name, state.words, state.tensor) for state in state_tensors(model)]
        self._settings = dict(_settings(model))

    def changes(self) -> list[str]:
        """Name what changed: "parameter conv.weight has other values", "bn.eps was 1e-05 and is 0.1"."""
        now = {state.name: state.tensor for state in state_tensors(self._model)}
        changed = self._guard.changed()
        found: list[str] = []
        for name, words, tensor in self._tensors:
            if name not in now:
                found.append(f"{words} is gone")
            elif now[name] is not tensor:
                found.append(f"{words} is another tensor")
            elif id(tensor) in changed:
                found.append(f"{words} has other values")
        known = {name for name, _, _ in self._tensors}
        found += [f"{name} is new" for name in now if name not in known]
        return found + self._changed_settings()

    def restore(self) -> None:
        """Put the model back as it was."""
        self._guard.restore()

    def _changed_settings(self) -> list[str]:
        now = dict(_settings(self._model))
        return [
            f"{name} was {self._settings.get(name, 'missing')} and is {now.get(name, 'missing')}"
            for name in {**self._settings, **now}
            if self._settings.get(name) != now.get(name)
        ]


def _settings(model: Any) -> Iterator[tuple[str, str]]:
    """Give the class and the plain settings of every module, as texts: NaN must equal NaN here."""
    if not isinstance(model, nn.Module):
        return
    for path, module in model.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        yield (f"module {path}" if path else "the model"), type(module).__qualname__
        for name, value in vars(module).items():
            if not name.startswith("_") and _is_plain(value):
                yield prefix + name, repr(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, complex, str, enum.Enum, torch.dtype))
