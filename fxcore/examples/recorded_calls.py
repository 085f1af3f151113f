"""Functions of torch that cannot be given a proxy, replaced while a trace with an example runs.

The parser of torch wants real numbers where sizes are given one by one (`torch.zeros(n, 3)`), functions that look at
values want real values, and a slice of a tensor that is no proxy asks its bounds for a number without saying so. einops
looks its recipes up by shape, and a function of autograd is more than its forward. With a proxy among their arguments,
the calls are recorded instead.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch.utils import checkpoint

from fxcore.errors import TraceArgumentError
from fxcore.examples.arguments import value_of
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import REPLACEMENTS, Patcher
from fxcore.tracing.recorded_functions import TAKE_SIZES_AT_ONCE
from fxcore.tracing.wrap import find_symbolic

_LOOK_AT_VALUES = ("tensor", "as_tensor", "asarray", "scalar_tensor", "finfo", "iinfo", "range", "broadcast_shapes")
_METHODS = ("new_tensor", "type", "tile", "unflatten", "view", "reshape", "repeat", "permute", "split", "narrow")
_OF_EINOPS = ("reduce", "einsum", "pack", "unpack", "parse_shape")
_OPERATORS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


def patch_calls(patcher: Patcher) -> None:
    """Let these calls be recorded by the trace of `patcher`."""
    patcher.replace_all(vars(torch), _functions())
    patcher.replace_all(torch.Tensor, _methods())
    patcher.replace(torch.nn.Module, "_apply", _with_values)
    patcher.replace(torch.autograd.Function, "apply", _recorded_apply)
    patcher.replace_all(torch.jit.ScriptFunction, _call_of_scripted_functions())
    einops = sys.modules.get("einops.einops")
    if einops is not None:
        for name in _OF_EINOPS:
            if name in vars(einops):
                patcher.replace(vars(einops), name, _recorded)


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    names = [*_LOOK_AT_VALUES, *(name for name in sorted(TAKE_SIZES_AT_ONCE) if hasattr(torch, name))]
    return {name: _recorded(REPLACEMENTS.original(vars(torch), name)) for name in names}


@functools.cache
def _methods() -> dict[str, Callable[..., Any]]:
    names = [*_METHODS, *(name for name in sorted(TAKE_SIZES_AT_ONCE) if hasattr(torch.Tensor, name))]
    found = {name: _recorded(REPLACEMENTS.original(torch.Tensor, name), "call_method", name) for name in names}
    for name, target in _OPERATORS.items():
        found[name] = _recorded(REPLACEMENTS.original(torch.Tensor, name), "call_function", target)
    return found


@functools.cache
def _with_values(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `Module._apply`, which moves real parameters: a proxy must not take their place."""

    def _apply(self: Any, function: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
        def on_values(tensor: Any) -> Any:
            return value_of(function(tensor))

        with module_hooks.suspended():
            return original(self, on_values, *args, **kwargs)

    return _apply


@functools.cache
def _recorded_apply(original: Any) -> Any:
    """Return a class method that records a call of `Function.apply`, so that the graph keeps its backward.

    Where an argument cannot be one of a node, as a function cannot, what its forward does is recorded instead.
    """

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        target = MethodType(original.__func__, cls)
        if found is None:
            return target(*args, **kwargs)
        try:
            found.tracer.create_arg((args, kwargs))
        except TraceArgumentError:
            return _recorded_forward(cls, args, kwargs)
        return found.tracer.create_proxy("call_function", target, args, kwargs)

    return classmethod(apply)


def _recorded_forward(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if function is checkpoint.CheckpointFunction:
        run, _, *inputs = args
        return run(*inputs)
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)
    return function.forward(_ForwardContext(), *args, **kwargs)


class _ForwardContext:
    """What a forward of an autograd function gets as `ctx`, where nothing is kept for a backward."""

    needs_input_grad: tuple[bool, ...] = (False,) * 64

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nothing."""

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_backward


@functools.cache
def _call_of_scripted_functions() -> dict[str, Callable[..., Any]]:
    original = REPLACEMENTS.original(torch.jit.ScriptFunction, "__call__")

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        if found is None:
            return original(self, *args, **kwargs)
        return found.tracer.create_proxy("call_function", self, args, kwargs)

    return {"__call__": call}


@functools.cache
def _recorded(function: Callable[..., Any], kind: str = "call_function", target: Any = None) -> Callable[..., Any]:
    """Return a function that calls `function`, or records a call of `target`, if a proxy is among the arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        return found.tracer.create_proxy(kind, function if target is None else target, args, kwargs)

    return call
