"""The plain function behind whatever is traced."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from fxcore.errors import GraphArgumentError


def function_of(root: Any, method_name: str = "forward") -> tuple[FunctionType, bool]:
    """Return the function to run for a module or callable, and whether it takes the module as its first argument.

    Functions, modules (also those with a `forward` of their own on the instance), bound methods, partials and
    objects with `__call__` are understood. Raises GraphArgumentError (an AssertionError) for anything else.
    """
    if isinstance(root, nn.Module):
        return _forward_of(root, method_name)
    if isinstance(root, FunctionType):
        return root, False
    if callable(root):
        return _as_function(root), False
    raise GraphArgumentError(
        f"Expected FunctionType, got {type(root)}: {root!r:.200} is neither an nn.Module nor callable"
    )


def name_of(root: Any) -> str:
    """Return what the module made from a root is called."""
    if isinstance(root, nn.Module):
        return type(root).__name__
    return str(getattr(root, "__name__", None) or type(root).__name__)


def globals_of(root: Any, function: FunctionType) -> dict[str, Any]:
    """Return the globals that the traced code itself sees."""
    while isinstance(root, functools.partial):
        root = root.func
    if not isinstance(root, (nn.Module, FunctionType, MethodType)):
        root = getattr(root, "__call__", root)  # noqa: B004 - the method itself is wanted
    return getattr(getattr(root, "__func__", None), "__globals__", function.__globals__)


def _forward_of(module: nn.Module, name: str) -> tuple[FunctionType, bool]:
    own = vars(module).get(name)  # calling the module would run this one, so tracing does
    if own is None:
        if not hasattr(type(module), name):
            raise GraphArgumentError(
                f"traced_func_name={name} doesn't exist in {type(module).__name__}; "
                "set Tracer.traced_func_name to a method that it has"
            )
        own = getattr(type(module), name)
        if isinstance(own, FunctionType):
            return own, True
        own = getattr(module, name)
    if isinstance(own, MethodType) and own.__self__ is module and isinstance(own.__func__, FunctionType):
        return own.__func__, True
    return (own, False) if isinstance(own, FunctionType) else (_as_function(own), False)


def _as_function(target: Any) -> FunctionType:
    """Return a function with the parameters of `target`, a callable of another kind, that calls it."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError) as error:
        raise GraphArgumentError(
            f"cannot trace {target!r}: Python does not know its parameters; wrap it in a function that lists them"
        ) from error
    names: dict[str, Any] = {"__target": target}
    declared: list[str] = []
    passed: list[str] = []
    has_star = False
    for index, parameter in enumerate(parameters):
        name, kind = parameter.name, parameter.kind
        if kind is parameter.KEYWORD_ONLY and not has_star:
            declared.append("*")
            has_star = True
        prefix = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
        has_star = has_star or prefix == "*"
        default = ""
        if parameter.default is not parameter.empty:
            names[f"__default_{index}"] = parameter.default
            default = f"=__default_{index}"
        declared.append(f"{prefix}{name}{default}")
        passed.append(f"{name}={name}" if kind is parameter.KEYWORD_ONLY else f"{prefix}{name}")
    exec(f"def call({', '.join(declared)}):\n    return __target({', '.join(passed)})\n", names)
    function: FunctionType = names["call"]
    function.__annotations__ = {item.name: item.annotation for item in parameters if item.annotation is not item.empty}
    return function
