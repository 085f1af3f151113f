"""Does a value of one type fit a parameter of another?"""

from __future__ import annotations

import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Sequence
from typing import Any

import torch

_UNIONS = (typing.Union, types.UnionType)


def create_type_hint(x: object) -> object:
    """Return `list[T]` or `tuple[T, ...]` for a list or tuple of types, T being the widest of them or Any.

    Anything else comes back as it is; so does a list with items that are no types, with a warning.
    """
    if not isinstance(x, (list, tuple)):
        return x
    try:
        widest = _widest(x)
    except TypeError:
        warnings.warn(f"We were not able to successfully create type hint from the type {x}", stacklevel=2)
        return x
    return list[widest] if isinstance(x, list) else tuple[widest, ...]  # type: ignore[valid-type]  # made at run time


def _widest(kinds: Sequence[Any]) -> Any:
    if not kinds:
        return Any
    widest = kinds[0]
    for kind in kinds:
        if issubclass(widest, kind):
            widest = kind
        elif not issubclass(kind, widest):
            return Any
    return widest


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Tell whether an argument of `argument_type` can be given for a parameter annotated `signature_type`."""
    if signature_type is argument_type or signature_type == argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in _UNIONS:
        return any(type_matches(member, argument_type) for member in typing.get_args(signature_type))
    if origin is list:
        return _fits_list(signature_type, argument_type)
    if signature_type is int and argument_type is torch.dtype:
        return True  # schemas say int where they mean a dtype
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    return inspect.isclass(argument_type) and inspect.isclass(signature_type) and _is_sub(argument_type, signature_type)


def _fits_list(signature_type: Any, argument_type: Any) -> bool:
    wanted = typing.get_args(signature_type)[0]
    if wanted is int and argument_type is int:
        return True  # a lone int stands for a list of equal ones
    if not inspect.isclass(wanted):
        warnings.warn(f"Does not support nested parametric types, got {signature_type}", stacklevel=3)
        return False
    items = typing.get_args(argument_type)
    if typing.get_origin(argument_type) is list:
        return _is_sub(items[0], wanted)
    if typing.get_origin(argument_type) is tuple:
        return all(item is ... or _is_sub(item, wanted) for item in items)
    return False


def _is_sub(kind: Any, wanted: type) -> bool:
    try:
        return issubclass(kind, wanted)
    except TypeError:  # Any, list[int] and others that are no classes
        return False
