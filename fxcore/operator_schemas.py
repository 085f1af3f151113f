"""Signatures of torch operators, read from the schemas that they are registered with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from fxcore.errors import GraphError

__all__ = ["check_for_mutable_operation"]


class MutableOperationError(GraphError):
    """An operator that mutates was recorded by a tracer that refuses those."""


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise MutableOperationError (a RuntimeError) if calling `target` so mutates one of its arguments.

    Only a call that fits exactly one overload is judged; functions without a schema pass.
    """
    fitting = [schema for signature, schema in _overloads(target) if _fits(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise MutableOperationError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported; call the form that returns its "
            "result, or trace with check_mutable_operations = False"
        )


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=1024)
def _overloads(target: Any) -> tuple[tuple[inspect.Signature, Any], ...]:
    if isinstance(target, OpOverload):
        schemas = [target._schema]
    elif isinstance(target, OpOverloadPacket):
        schemas = [getattr(target, name)._schema for name in target.overloads()]
    else:
        name = torch.jit._builtins._find_builtin(target)
        schemas = torch._C._jit_get_schemas_for_operator(name) if name else []
    return tuple([(_signature(schema), schema) for schema in schemas])


def _signature(schema: Any) -> inspect.Signature:
    names = [argument.name for argument in schema.arguments]
    parameters = []
    for argument in schema.arguments:
        name = argument.name
        if name == "self" and "input" not in names:
            name = "input"  # what the Python function calls it
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        name = "from_" if name == "from" else name
        parameters.append(inspect.Parameter(name, kind, default=default))
    parameters.sort(key=lambda parameter: (parameter.kind, parameter.default is not inspect.Parameter.empty))
    return inspect.Signature(parameters)
