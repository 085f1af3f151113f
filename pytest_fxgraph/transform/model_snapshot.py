"""Did a transform change the model it was given? Tensors, flags, settings and hooks, module by module."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.state.guard import StateGuard
from pytest_fxgraph.equivalence.state.module_state import ModuleState, modules_by_path

# Their contents are compared one by one.
_COMPARED_BY_NAME = ("_parameters", "_buffers", "_modules")


class ModelSnapshot:
    """The state of a model at one time: names what changed since, and restores it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._guard = StateGuard(model)
        self._state = self._guard.state_of(model)
        self._settings = dict(_settings(model))

    def changes(self) -> list[str]:
        """List the changes in words: "parameter conv.weight has other values", "bn.eps was 1e-05 and is 0.1"."""
        now = {state.name: state.tensor for state in ModuleState(self._model).tensors}
        changed, other_requires_grad = self._guard.changed(), self._guard.changed_requires_grad()
        found: list[str] = []
        for state in self._state.tensors:
            if state.name not in now:
                found.append(f"{state.label} is gone")
            elif now[state.name] is not state.tensor:
                found.append(f"{state.label} is another tensor")
            elif id(state.tensor) in changed:
                found.append(f"{state.label} has other values")
            elif id(state.tensor) in other_requires_grad:
                found.append(f"{state.label} has requires_grad={state.tensor.requires_grad} now")
        known = {state.name for state in self._state.tensors}
        found += [f"{name} is new" for name in now if name not in known]
        return found + self._changed_settings() + self._changed_attributes()

    def restore(self) -> None:
        """Restore the model."""
        self._guard.restore()

    def _changed_attributes(self) -> list[str]:
        """Describe what else changed in modules: hooks, a patched forward, caches."""
        paths: dict[int, str] = {}
        for path, module in modules_by_path(self._model):
            paths.setdefault(id(module), path)
        found = []
        for module, name in self._guard.changed_attributes():
            value = module.__dict__.get(name)
            is_setting = not name.startswith("_") and (isinstance(value, torch.Tensor) or _is_plain(value))
            if name not in _COMPARED_BY_NAME and not is_setting:
                path = paths.get(id(module), "")
                found.append(f"{path}.{name} holds something else" if path else f"{name} holds something else")
        return found

    def _changed_settings(self) -> list[str]:
        now = dict(_settings(self._model))
        return [
            f"{name} was {self._settings.get(name, 'missing')} and is {now.get(name, 'missing')}"
            for name in {**self._settings, **now}
            if self._settings.get(name) != now.get(name)
        ]


def _settings(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the class and the plain settings of every module, as texts: NaN must equal NaN here."""
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
