"""What a called module is: its class and the hyper-parameters that decide what it computes."""

from __future__ import annotations

import enum
import functools
import marshal
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fxcore.operators.layers import training_matters
from pytest_fxgraph.document.argument_texts import ArgumentTexts
from pytest_fxgraph.document.constructors import NEVER, Parameter
from pytest_fxgraph.document.module_traits import ModuleTraits, traits_of
from pytest_fxgraph.document.target_names import class_name
from pytest_fxgraph.errors import DocumentError

TextOf = Callable[[Any], str]
Config = tuple[tuple[str, str], ...]

# What torch.nn.Module itself keeps in public attributes.
_NOT_ATTRIBUTES = frozenset({"training", "call_super_init", "dump_patches"})
_DESCRIBED_ELSEWHERE = (torch.Tensor, torch.nn.Module)
_PLAIN = frozenset({int, bool, float, str, type(None)})
_INTEGER = frozenset({int})
_MISSING = NEVER  # in place of a value that a module does not have
_DEEPEST_DATA = 20
_WITHOUT_SHARING = 2  # version of the format; in later ones, equal values may have different forms


def module_config(module: torch.nn.Module, text: TextOf, traits: ModuleTraits | None = None) -> Config:
    """Describe a module: by its constructor for torch.nn, by its public attributes for the user's."""
    traits = traits or traits_of(type(module))
    known = _layer_config(module, traits) if traits.is_layer else None
    if known is not None:
        return known
    values_of = _constructor_values if traits.is_of_torch else _attribute_values
    values = values_of(module, traits.parameters)
    return tuple([(name, _text_or_type(value, text)) for name, value in values])


def _layer_config(module: torch.nn.Module, traits: ModuleTraits) -> Config | None:
    """Describe a layer of plain values as the last one with these values was; None for any other."""
    attributes = module.__dict__
    try:
        values: list[Any] = [attributes[name] for name in traits.kept_parameters]
        if traits.takes_bias:
            values.append(module._parameters["bias"] is not None)
        # As a key, the marshalled form tells 1, True, 1.0 and the bits of floats apart.
        packed = marshal.dumps(values, _WITHOUT_SHARING)
    except (KeyError, ValueError):  # ValueError: a value that is no plain data
        return None
    cls: Any = type(module)  # metaclass and all, a class is hashable
    return _config_of_values(cls, packed)


@functools.lru_cache(maxsize=4096)
def _config_of_values(cls: Any, packed: bytes) -> Config | None:
    traits, values = traits_of(cls), marshal.loads(packed)
    if not all(type(value) in _PLAIN or _is_of_integers(value) for value in values):
        return None
    by_name = dict(zip((*traits.kept_parameters, "bias"), values, strict=False))
    text, config = ArgumentTexts(None).text, []
    for parameter in traits.parameters:
        value = by_name[parameter.name]
        is_new_bias = parameter.is_new and parameter.name == "bias"
        if not is_new_bias and not _goes_unsaid(value, parameter):
            config.append((parameter.name, text(value)))
    return tuple(config)


def _is_of_integers(value: Any) -> bool:
    return type(value) is tuple and _INTEGER.issuperset(map(type, value))


def _goes_unsaid(value: Any, parameter: Parameter) -> bool:
    """Tell whether a value is the one that goes unsaid; a new parameter may be kept once for each dimension."""
    unsaid = parameter.unsaid
    if parameter.is_new and type(value) is tuple and type(unsaid) is not tuple:
        return bool(value) and all(_is_same(each, unsaid) for each in value)
    return _is_same(value, unsaid)


def _is_same(value: Any, unsaid: Any) -> bool:
    return type(value) is type(unsaid) and bool(value == unsaid)


def training_flag(module: torch.nn.Module) -> bool | None:
    """Give a module's training flag where it changes, or in a user's module may change, what is computed."""
    if traits_of(type(module)).is_of_torch and not training_matters(module):
        return None
    return bool(module.training)


def _text_or_type(value: Any, text: TextOf) -> str:
    try:
        return text(value)
    except DocumentError:
        # Neither number nor name: the type is all that is the same in every run.
        return class_name(type(value))


def _constructor_values(module: torch.nn.Module, parameters: Sequence[Parameter]) -> list[tuple[str, Any]]:
    values = []
    attributes = module.__dict__
    for parameter in parameters:
        name = parameter.name
        if parameter.is_new and name in module._parameters:
            continue  # whether the tensor is there is said by the state, and so by torches without the parameter
        if name == "bias":
            value = _has_bias(module, parameter.dropped)
        else:
            value = attributes[name] if name in attributes else getattr(module, name, parameter.dropped)
        # Tensors are state, and modules within have a record of their own.
        if value is _MISSING or isinstance(value, _DESCRIBED_ELSEWHERE):
            continue
        if not _goes_unsaid(value, parameter):
            values.append((name, value))
    return values


def _has_bias(module: torch.nn.Module, otherwise: Any) -> Any:
    for name in ("bias", "in_proj_bias"):
        value = getattr(module, name, _MISSING)
        if value is not _MISSING:
            return value if isinstance(value, bool) else value is not None
    return otherwise


def _attribute_values(module: torch.nn.Module, new: Sequence[Parameter]) -> list[tuple[str, Any]]:
    attributes = vars(module).items()
    names = {name for name, value in attributes if not name.startswith("_") and (_is_plain(value) or _is_data(value))}
    names |= {name for name in getattr(type(module), "__constants__", ()) if hasattr(module, name)}
    names -= {each.name for each in new if _goes_unsaid(getattr(module, each.name, _MISSING), each)}
    values = [(name, getattr(module, name)) for name in sorted(names - _NOT_ATTRIBUTES)]
    return [(name, value) for name, value in values if not isinstance(value, _DESCRIBED_ELSEWHERE)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | enum.Enum)


_KINDS_OF_DATA = (bool, int, float, complex, enum.Enum, torch.dtype, torch.device)


def _is_data(value: Any, depth: int = 0) -> bool:
    """Tell whether a value is plain data, or a container of plain data: what a golden tells of a user's module."""
    if value is None or isinstance(value, _KINDS_OF_DATA):
        return True
    if depth > _DEEPEST_DATA:
        return False
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    elif isinstance(value, dict):
        if not all(isinstance(key, str) or _is_data(key, depth + 1) for key in value):
            return False
        value = value.values()
    elif not isinstance(value, (tuple, list, set, frozenset)):
        return False
    return all(_is_data(item, depth + 1) for item in value)
