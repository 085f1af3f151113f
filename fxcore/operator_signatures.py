"""Python signatures of torch operators, made from the schemas that they are registered with."""

from __future__ import annotations

import enum
import inspect
import numbers
import typing
from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import torch

# What the names in TorchScript's type annotations stand for in Python.
_TYPES: dict[str, Any] = {
    "Any": Any,
    "AnyEnumType": enum.Enum,
    "Device": torch.device,
    "Dict": typing.Dict,  # noqa: UP006 - annotations are written with these
    "Future": torch.jit.Future,
    "Generator": torch.Generator,
    "Layout": torch.layout,
    "List": typing.List,  # noqa: UP006
    "NoneType": type(None),
    "Optional": typing.Optional,
    "PyObject": Any,
    "QScheme": torch.qscheme,
    "Storage": torch.UntypedStorage,
    "Stream": torch.Stream,
    "Tensor": torch.Tensor,
    "Tuple": typing.Tuple,  # noqa: UP006
    "Union": typing.Union,
    "bool": bool,
    "complex": complex,
    "float": float,
    "int": int,
    "number": numbers.Number,
    "str": str,
    "t": typing.TypeVar("t"),
}

_signatures: dict[tuple[str, str], inspect.Signature] = {}


def signature_of_schema(schema: Any) -> inspect.Signature:
    """Return the signature of a registered operator; `self` is called `input`, as Python's functions call it."""
    key = schema.name, schema.overload_name
    signature = _signatures.get(key)
    if signature is None:
        signature = _signatures[key] = _make_signature(schema)
    return signature


def python_type(script_type: Any) -> Any:
    """Return the Python type for a TorchScript type; `Any` for one that Python does not know."""
    try:
        return eval(script_type.annotation_str, {"__builtins__": {}}, _TYPES)
    except Exception:  # classes of extensions, type variables
        return Any


def _make_signature(schema: Any) -> inspect.Signature:
    names = [argument.name for argument in schema.arguments]
    parameters = [_parameter(argument, is_renamed="input" not in names) for argument in schema.arguments]
    if "from" in names:
        # A keyword of Python, so it can only be given by position, and then so must all before it.
        last = names.index("from")
        parameters[: last + 1] = [
            Parameter(before.name, Parameter.POSITIONAL_ONLY, default=before.default, annotation=before.annotation)
            for before in parameters[: last + 1]
        ]
    return inspect.Signature(parameters, return_annotation=_return_type(schema.returns))


def _parameter(argument: Any, *, is_renamed: bool) -> Parameter:
    name = argument.name
    return Parameter(
        "input" if name == "self" and is_renamed else name,
        _kind(argument),
        default=argument.default_value if argument.has_default_value() else Parameter.empty,
        annotation=python_type(argument.type),
    )


def _return_type(returns: Sequence[Any]) -> Any:
    types = [python_type(returned.type) for returned in returns]
    if len(types) > 1:
        return tuple(types)
    return types[0] if types else None


def _kind(argument: Any) -> Any:
    if argument.kwarg_only:
        return Parameter.KEYWORD_ONLY
    return Parameter.POSITIONAL_ONLY if argument.name == "from" else Parameter.POSITIONAL_OR_KEYWORD
