"""Signatures of torch's operators and modules, and arguments matched to them."""

from __future__ import annotations

import enum
import functools
import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket

from fxcore.errors import GraphError

_UNIONS = (typing.Union, types.UnionType)


def create_type_hint(x: object) -> object:
    """Return `list[T]` or `tuple[T, ...]` for a list or tuple of types. T is the widest of the types, or Any.

    Any other object is returned unchanged; so is a list with items that are no types, with a warning.
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
    """Return whether a parameter annotated `signature_type` takes an argument of `argument_type`."""
    if signature_type == argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in _UNIONS:
        return any(type_matches(member, argument_type) for member in typing.get_args(signature_type))
    if origin is list:
        return _fits_list(signature_type, argument_type)
    if signature_type is int and argument_type is torch.dtype:
        return True  # schemas write int for a dtype
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    return inspect.isclass(argument_type) and inspect.isclass(signature_type) and _is_sub(argument_type, signature_type)


def _fits_list(signature_type: Any, argument_type: Any) -> bool:
    wanted = typing.get_args(signature_type)[0]
    if wanted is int and argument_type is int:
        return True  # a single int means a list of equal ones
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
    except TypeError:  # Any and list[int] are no classes
        return False


# Names in TorchScript's type annotations -> Python types.
_TYPES: dict[str, Any] = {
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")},
    **{kind.__name__: kind for kind in (bool, complex, float, int, str)},
    **{name: getattr(torch, name) for name in ("Generator", "Stream", "Tensor")},
    "AnyEnumType": enum.Enum,
    "Device": torch.device,
    "Future": torch.jit.Future,
    "Layout": torch.layout,
    "NoneType": type(None),
    "PyObject": Any,
    "QScheme": torch.qscheme,
    "Storage": torch.UntypedStorage,
    "number": numbers.Number,
    "t": typing.TypeVar("t"),
}

_signatures: dict[tuple[str, str], inspect.Signature] = {}


def signature_of_schema(schema: Any) -> inspect.Signature:
    """Return the signature of a registered operator. `self` is called `input`, as in Python's functions."""
    key = schema.name, schema.overload_name
    if key not in _signatures:
        _signatures[key] = _make_signature(schema)
    return _signatures[key]


def python_type(script_type: Any) -> Any:
    """Return the Python type for a TorchScript type; `Any` for a type unknown to Python."""
    try:
        return eval(script_type.annotation_str, {"__builtins__": {}}, _TYPES)
    except Exception:  # classes of extensions, type variables
        return Any


def _make_signature(schema: Any) -> inspect.Signature:
    names = [argument.name for argument in schema.arguments]
    parameters = [_parameter(argument, is_renamed="input" not in names) for argument in schema.arguments]
    if "from" in names:
        # A Python keyword, so it can only be given by position. The same then holds for all parameters before it.
        last = names.index("from")
        parameters[: last + 1] = [each.replace(kind=Parameter.POSITIONAL_ONLY) for each in parameters[: last + 1]]
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


# Private names of torch.fx's file that libraries import. They exist here without a promise.
_SCHEMA_TO_SIGNATURE_CACHE = _signatures
_torchscript_schema_to_signature, _torchscript_type_to_python_type = signature_of_schema, python_type

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MutableOperationError(GraphError):
    """A tracer that refuses mutation recorded a mutating operator."""


class AmbiguousSchemaError(GraphError):
    """Arguments fit several overloads of an operator."""


_SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
# Builtin functions whose Python signature is in no schema.
_OF_PYTHON: dict[Callable[..., Any], list[inspect.Signature]] = {
    torch.nonzero: [
        inspect.Signature([_SELF]),
        inspect.Signature([_SELF, Parameter("as_tuple", Parameter.KEYWORD_ONLY, annotation=bool)]),
    ]
}

_Overloads = tuple[tuple[inspect.Signature, Any], ...]

# Python's grammar makes `from` positional-only in schemas, but calls of these parameters are written by keyword.
_RANDOM_RANGE = ["input", "from", "to", "generator"]


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise MutableOperationError (a RuntimeError) if this call of `target` mutates one of its arguments.

    Only a call that fits exactly one overload is judged. A function without a schema passes.
    """
    fitting = [schema for signature, schema in _overloads(target) or () if fitted(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise MutableOperationError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported; call the form that returns its "
            "result, or trace with check_mutable_operations = False"
        )


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """Return the signatures of the overloads of a torch operator, or None if torch has no schema for it.

    With `return_schemas`, return a pair: the signatures and their schemas, or two Nones.
    """
    overloads = _overloads(op)
    if overloads is None:
        return (_OF_PYTHON.get(op), None) if return_schemas else None
    signatures, schemas = [signature for signature, _ in overloads], [schema for _, schema in overloads]
    return (signatures, schemas) if return_schemas else signatures


def _overloads(target: Any) -> _Overloads | None:
    # The identity is part of the key: torch.mm and torch.dsmm are equal, but only one of them has schemas.
    return _find_overloads(target, id(target))


@functools.lru_cache(maxsize=1024)
def _find_overloads(target: Any, identity: int) -> _Overloads | None:
    if target in _OF_PYTHON:
        return None
    if isinstance(target, OpOverload):
        schemas = [target._schema]
    elif isinstance(target, OpOverloadPacket):
        schemas = [getattr(target, name)._schema for name in target.overloads()]  # type: ignore[no-untyped-call]  # torch's
    else:
        name = torch.jit._builtins._find_builtin(target)  # type: ignore[no-untyped-call]  # torch's
        if name is None:
            return None
        schemas = torch._C._jit_get_schemas_for_operator(name)
    return tuple([(signature_of_schema(schema), schema) for schema in schemas])


def fitted(signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments | None:
    """Return the arguments of a call by parameter; None if the signature does not take them."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Match arguments to the signature of `target` and fill in its defaults.

    Positional arguments stay positional, the others become keywords; with `normalize_to_only_use_kwargs`, all become
    keywords. Return None without a fitting signature, and for a signature with `*args` or positional-only parameters.
    If several overloads fit, `arg_types` and `kwarg_types` choose; without them AmbiguousSchemaError (a RuntimeError)
    is raised.
    """
    kwargs = kwargs or {}
    if not _is_operator(target) and hasattr(target, "_op"):
        target = target._op  # a wrapper of ExecuTorch around an operator
    if _is_operator(target):
        signature = _fitting_overload(target, args, kwargs, arg_types, kwarg_types)
    else:
        signature = _python_signature(target)
    return _bound(signature, args, kwargs, normalize_to_only_use_kwargs) if signature is not None else None


def _normalize_function_or_error(target: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **more: Any) -> Any:
    """Call `normalize_function`, and raise GraphError (a RuntimeError) if it returns None."""
    normalized = normalize_function(target, args, *rest, **more)
    if normalized is None:
        kwargs = more.get("kwargs", rest[0] if rest else None)
        raise GraphError(
            f"Failed to normalize function {target} with args {args} and kwargs {kwargs}: it has no signature, or none "
            "that these arguments fit"
        )
    return normalized


def _is_operator(target: Any) -> bool:
    return isinstance(target, (types.BuiltinFunctionType, OpOverload, OpOverloadPacket))


def _python_signature(target: Any) -> inspect.Signature | None:
    """Return the signature of a Python function.

    Return None for a choice between two functions with other parameters.
    """
    if target in boolean_dispatched:
        branches = boolean_dispatched[target]
        target = branches["if_true"]
        if inspect.signature(target).parameters != inspect.signature(branches["if_false"]).parameters:
            return None
    return inspect.signature(inspect.unwrap(target))


def _fitting_overload(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arg_types: tuple[Any, ...] | None,
    kwarg_types: dict[str, Any] | None,
) -> inspect.Signature | None:
    candidates: list[inspect.Signature] = get_signature_for_torch_op(target) or []
    fitting = [signature for signature in candidates if fitted(signature, args, kwargs)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    if arg_types is None and kwarg_types is None:
        overloads = "\n".join(map(str, fitting))
        raise AmbiguousSchemaError(
            f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! Please "
            f"provide argument types to the normalize_arguments() call. Available schemas:\n{overloads}"
        )
    return next((each for each in candidates if _fits_types(each, arg_types or (), kwarg_types or {})), None)


def _fits_types(signature: inspect.Signature, arg_types: tuple[Any, ...], kwarg_types: dict[str, Any]) -> bool:
    bound, parameters = fitted(signature, arg_types, kwarg_types), signature.parameters
    return bound is not None and all(
        type_matches(parameters[name].annotation, kind) for name, kind in bound.arguments.items()
    )


def normalize_module(
    root: nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Match arguments to the forward of the submodule at `target`, as `normalize_function` does for a function.

    Return None for modules outside of torch.nn. Raises GraphError (a RuntimeError) if `root` has no such submodule.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise GraphError(
            f"Tried to normalize node with target {target} but root did not have that target! "
            f"{type(root).__name__} has no submodule there"
        ) from error
    if getattr(nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    """Return the arguments under the names of `signature`; None if it has parameters without keyword form."""
    nameable = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    names = list(signature.parameters)
    if names != _RANDOM_RANGE and any(each.kind not in nameable for each in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional = () if only_kwargs else tuple(names[: len(args)])
    return ArgsKwargsPair(
        tuple([bound.arguments[name] for name in positional]),
        {name: bound.arguments[name] for name in names[len(positional) :]},
    )
