"""Recording of torch.distributed's collectives where torch itself does not record them in a trace.

Some versions of torch record a call with a proxy, for some functions. A call without a proxy among its arguments, such
as a barrier or the reduction of a tensor that the traced code made, runs while tracing and is missing in the graph. A
trace with an example records it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch

from fxcore.operators.effects import effects_of
from fxcore.operators.table import operator_table
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import REPLACEMENTS, Patcher
from fxcore.tracing.wrap import called_on_proxies, find_symbolic

_RECORDS = "handle_torch_function"
FUNCTIONAL = "torch.distributed._functional_collectives"


def patch_collectives(patcher: Patcher) -> None:
    """Let the trace of `patcher` record collectives. Only a trace with an example records calls without a proxy.

    With a torch that waits for the results of functional collectives at the first read, let a node wait for them. Later
    versions of torch wrap the result by an operator, and the trace records the operator.
    """
    functional = sys.modules.get(FUNCTIONAL)
    if functional is not None and not hasattr(functional, "_wrap_tensor_autograd"):
        patcher.replace(vars(functional), "_maybe_wrap_tensor", _recorded_wait)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Patch torch.distributed, not the defining module: there the functions find themselves by name when they
        # record.
        patcher.replace_all(vars(torch.distributed), _recorded_collectives())


@functools.cache
def _recorded_collectives() -> dict[str, Callable[..., Any]]:
    members = vars(torch.distributed)
    known = [
        name.removeprefix("torch.distributed.") for name, facts in operator_table().items() if "collective" in facts
    ]
    names = [name for name in known if "." not in name]
    return {name: _recorded(REPLACEMENTS.original(members, name)) for name in names if name in members}


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    is_recorded_by_torch = _is_recorded_by_torch(function)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        has_proxy = find_symbolic((args, kwargs)) is not None
        if is_recorded_by_torch if has_proxy else tracer is None:
            return function(*args, **kwargs)
        if has_proxy:
            args, kwargs = _as_torch_records(signature, args, kwargs)
            tracer = find_symbolic((args, kwargs)).tracer  # type: ignore[union-attr]  # there is one
        return tracer.create_proxy("call_function", function, args, kwargs)

    return call


def _as_torch_records(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments in the form that torch records: every parameter with a default is given by name."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    required = [name for name, each in signature.parameters.items() if each.default is each.empty]
    named = {name: value for name, value in bound.arguments.items() if name not in required}
    return tuple([bound.arguments[name] for name in required]), named


def _is_recorded_by_torch(function: Callable[..., Any]) -> bool:
    """Return whether this function of torch, or a function that it calls, records a call with a proxy."""
    members = vars(torch.distributed.distributed_c10d)
    names = _names_in(function)
    known = [members[name] for name in names if name in members]
    others = [each for each in known if "collective" in effects_of("call_function", each).kinds]
    return _RECORDS in names or any(_RECORDS in _names_in(each) for each in others)


def _names_in(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.unwrap(function).__code__.co_names)


@functools.cache
def _recorded_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    return called_on_proxies(original, lambda tracer, args, kwargs: torch.ops._c10d_functional.wait_tensor(*args))
