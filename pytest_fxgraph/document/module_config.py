"""What a called module is: its class and the hyper-parameters that decide what it computes."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch

from pytest_fxgraph.errors import DocumentError

from .module_effects import is_of_torch, training_matters
from .target_names import class_name

TextOf = Callable[[Any], str]

# Parameters of constructors that say where and in which precision the state is made; the state itself says the second.
_NOT_CONFIGURATION = frozenset({"self", "device", "dtype"})
# What torch.nn.Module itself keeps in public attributes.
_NOT_ATTRIBUTES = frozenset({"training", "call_super_init", "dump_patches"})
_MISSING = object()
# In place of a default that no value equals.
_NEVER = object()


class ModuleConfigs:
    """Describes modules by class and configuration; what classes have in common is looked up once."""

    def __init__(self, text: TextOf) -> None:
        self._text = text
        self._kinds: dict[type, str] = {}
        self._parameters: dict[type, list[tuple[str, Any]]] = {}

    def kind(self, module: torch.nn.Module) -> str:
        """Give the qualified name of a module's class."""
        cls = type(module)
        if cls not in self._kinds:
            self._kinds[cls] = class_name(cls)
        return self._kinds[cls]

    def config(self, module: torch.nn.Module) -> tuple[tuple[str, str], ...]:
        """Describe a module: by its constructor for torch.nn, by its public attributes for the user's."""
        values = self._constructor_values(module) if is_of_torch(module) else _attribute_values(module)
        return tuple([(name, self._value_text(value)) for name, value in values])

    def _value_text(self, value: Any) -> str:
        try:
            return self._text(value)
        except DocumentError:
            # Neither number nor name: the type is all that is the same in every run.
            return class_name(type(value))

    def _constructor_values(self, module: torch.nn.Module) -> Iterable[tuple[str, Any]]:
        cls = type(module)
        parameters = self._parameters.get(cls)
        if parameters is None:
            parameters = self._parameters[cls] = [
                (name, _unsaid_value(parameter)) for name, parameter in _constructor_parameters(cls).items()
            ]
        for name, unsaid in parameters:
            value = _value_of_parameter(module, name)
            if value is not _MISSING and not (type(value) is type(unsaid) and value == unsaid):
                yield name, value


def training_flag(module: torch.nn.Module) -> bool | None:
    """Give a module's training flag where it changes, or in a user's module may change, what is computed."""
    if is_of_torch(module) and not training_matters(module):
        return None
    return bool(module.training)


def _constructor_parameters(cls: type) -> dict[str, inspect.Parameter]:
    """List a constructor's parameters; where it only hands on `*args`, those of its bases too."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if base is torch.nn.Module:
            break
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(base.__init__).parameters  # type: ignore[misc]  # of the class, not an instance
        for name, parameter in parameters.items():
            if not _takes_any(parameter) and not name.startswith("_"):
                found.setdefault(name, parameter)
        if not any(map(_takes_any, parameters.values())):
            break
    return {name: parameter for name, parameter in found.items() if name not in _NOT_CONFIGURATION}


def _takes_any(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _unsaid_value(parameter: inspect.Parameter) -> Any:
    """Give the default that goes unsaid, so that a parameter that a new torch adds does not change every golden."""
    default = parameter.default
    return default if default is None or default is False or parameter.kind is parameter.KEYWORD_ONLY else _NEVER


def _value_of_parameter(module: torch.nn.Module, name: str) -> Any:
    if name == "bias":
        return _has_bias(module)
    value = vars(module).get(name, _MISSING)
    if value is _MISSING:
        value = getattr(module, name, _MISSING)
    # Tensors are state, and modules within have a record of their own.
    return _MISSING if isinstance(value, torch.Tensor | torch.nn.Module) else value


def _has_bias(module: torch.nn.Module) -> Any:
    for name in ("bias", "in_proj_bias"):
        value = getattr(module, name, _MISSING)
        if value is not _MISSING:
            return value if isinstance(value, bool) else value is not None
    return _MISSING


def _attribute_values(module: torch.nn.Module) -> Iterable[tuple[str, Any]]:
    names = {name for name, value in vars(module).items() if not name.startswith("_") and _is_plain(value)}
    names |= {name for name in getattr(type(module), "__constants__", ()) if hasattr(module, name)}
    for name in sorted(names - _NOT_ATTRIBUTES):
        value = getattr(module, name)
        if not isinstance(value, torch.Tensor | torch.nn.Module):
            yield name, value


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | enum.Enum)
