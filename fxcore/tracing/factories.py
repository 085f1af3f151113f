"""Functions of torch whose arguments need not hold a tensor, where torch's argument parser refuses a proxy.

Up to some version after 2.6 that parser asks only tensors whether they want to handle the call, so that
`torch.zeros(3, dtype=x.dtype)` and `torch.cat(x.split(2))` cannot be recorded unless they are asked for beforehand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from fxcore.tracing.patching import Patcher
from fxcore.tracing.wrap import find_symbolic

_NAMES = (
    *("arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "zeros"),
    *("rand", "randint", "randn", "randperm", "normal"),
    *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack"),
)


class _Argument:
    """Something that is no tensor and wants to handle the calls that it is given to, as a proxy does."""

    @classmethod
    def __torch_function__(cls, *call: Any) -> bool:
        return True


@functools.cache
def are_recorded_by_torch() -> bool:
    """Tell whether this torch asks every argument, and not only tensors, whether it wants to handle the call."""
    try:
        torch.empty(1, dtype=_Argument())  # type: ignore[call-overload]  # that is the question
    except TypeError:
        return False
    return True


def patch_factories(patcher: Patcher) -> None:
    """Let calls of these functions with a proxy be recorded by the trace of `patcher` where torch refuses them."""
    if not are_recorded_by_torch():
        patcher.replace_all(vars(torch), _recorded_factories())


@functools.cache
def _recorded_factories() -> dict[str, Callable[..., Any]]:
    return {name: _recorded(getattr(torch, name)) for name in _NAMES}


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = find_symbolic((args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        kind: Any = type(found)
        return kind.__torch_function__(function, (kind,), args, kwargs)

    return call
