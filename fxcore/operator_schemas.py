"""Signatures of torch's operators and modules, and arguments matched to them."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket

from fxcore.errors import GraphError
from fxcore.operator_signatures import signature_of_schema
from fxcore.type_matching import create_type_hint, type_matches

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
    """An operator that mutates was recorded by a tracer that refuses those."""


class AmbiguousSchemaError(GraphError):
    """Arguments fit several overloads of an operator."""


# Builtin functions whose Python signature no schema has.
_OF_PYTHON: dict[Callable[..., Any], list[inspect.Signature]] = {
    torch.nonzero: [
        inspect.Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)]),
        inspect.Signature(
            [
                Parameter("self", Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor),
                Parameter("as_tuple", Parameter.KEYWORD_ONLY, annotation=bool),
            ]
        ),
    ]
}

_Overloads = tuple[tuple[inspect.Signature, Any], ...]

# `from` is positional-only in schemas, as Python's grammar wants it; these calls are written by keyword all the same.
_RANDOM_RANGE = ["input", "from", "to", "generator"]


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise MutableOperationError (a RuntimeError) if calling `target` so mutates one of its arguments.

    Only a call that fits exactly one overload is judged; functions without a schema pass.
    """
    fitting = [schema for signature, schema in _overloads(target) or () if _fits(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise MutableOperationError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported; call the form that returns its "
            "result, or trace with check_mutable_operations = False"
        )


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """Return the signatures of the overloads of a torch operator, or None if torch has no schema for it.

    With `return_schemas`, a pair: the signatures and the schemas that they were made from, or two Nones.
    """
    if op in _OF_PYTHON:
        return (_OF_PYTHON[op], None) if return_schemas else None
    overloads = _overloads(op)
    if overloads is None:
        return (None, None) if return_schemas else None
    signatures = [signature for signature, _ in overloads]
    return (signatures, [schema for _, schema in overloads]) if return_schemas else signatures


def _overloads(target: Any) -> _Overloads | None:
    # By identity too: torch.mm and torch.dsmm are equal, and only one of them has schemas.
    return _find_overloads(target, id(target))


@functools.lru_cache(maxsize=1024)
def _find_overloads(target: Any, identity: int) -> _Overloads | None:
    if target in _OF_PYTHON:
        return None
    if isinstance(target, OpOverload):
        schemas = [target._schema]
    elif isinstance(target, OpOverloadPacket):
        schemas = [overload._schema for overload in target.op_overloads()]  # type: ignore[no-untyped-call]  # torch's
    else:
        name = torch.jit._builtins._find_builtin(target)  # type: ignore[no-untyped-call]  # torch's
        if name is None:
            return None
        schemas = torch._C._jit_get_schemas_for_operator(name)
    return tuple([(signature_of_schema(schema), schema) for schema in schemas])


def _fits(signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Match arguments to the signature of `target` and fill in its defaults.

    What was given by position stays there, the rest is by keyword; with `normalize_to_only_use_kwargs`, all of it.
    Returns None where there is no signature, none that fits, or one with `*args` or positional-only parameters.
    Where several overloads fit, `arg_types` and `kwarg_types` choose; without them AmbiguousSchemaError
    (a RuntimeError) is raised.
    """
    kwargs = kwargs or {}
    if not _is_operator(target) and hasattr(target, "_op"):
        target = target._op  # ExecuTorch's wrapper around an operator
    if not _is_operator(target):
        signature = _python_signature(target)
        return _bound(signature, args, kwargs, normalize_to_only_use_kwargs) if signature is not None else None
    signature = _fitting_overload(target, args, kwargs, arg_types, kwarg_types)
    return _bound(signature, args, kwargs, normalize_to_only_use_kwargs) if signature is not None else None


def _is_operator(target: Any) -> bool:
    return isinstance(target, (types.BuiltinFunctionType, OpOverload, OpOverloadPacket))


def _python_signature(target: Any) -> inspect.Signature | None:
    """Return the signature of a Python function; None for a choice between two that take different arguments."""
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
    fitting = [signature for signature in candidates if _fits(signature, args, kwargs)]
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
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    parameters = signature.parameters
    return all(type_matches(parameters[name].annotation, kind) for name, kind in bound.arguments.items())


def normalize_module(
    root: nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Match arguments to the forward of the submodule at `target`, as `normalize_function` does to a function.

    Returns None for modules that are not torch.nn's own. Raises GraphError (a RuntimeError) if `root` has no such
    submodule.
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
    """Return the arguments under the names of `signature`; None if it has parameters that keywords cannot reach."""
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
