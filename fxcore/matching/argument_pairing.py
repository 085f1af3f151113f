"""Pairs of corresponding arguments in two calls of one operator."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload

from fxcore.matching.module_equality import value_of
from fxcore.node import Node
from fxcore.operator_schemas import fitted, get_signature_for_torch_op, signature_of_schema

Pair = tuple[Any, Any]


def pair_as_written(expected: Node, obtained: Node) -> list[Pair] | None:
    """Pair arguments that are written alike: equally many by position, the same keywords in the same order.

    Calls of an operator overload that are written differently are paired by its schema. Return None if they do not pair
    up.
    """
    if len(expected._args) == len(obtained._args):
        pairs = list(zip(expected._args, obtained._args, strict=True))
        if not expected._kwargs and not obtained._kwargs:
            return pairs
        if list(expected._kwargs) == list(obtained._kwargs):
            return [*pairs, *zip(expected._kwargs.values(), obtained._kwargs.values(), strict=True)]
    if expected._op == "call_function" and isinstance(expected._target, OpOverload):
        schema = expected._target._schema
        return list(zip(_by_schema(schema, expected), _by_schema(schema, obtained), strict=True))
    return None


def _by_schema(schema: Any, node: Node) -> list[Any]:
    values = []
    for index, parameter in enumerate(schema.arguments):
        if parameter.name in node._kwargs:
            values.append(node._kwargs[parameter.name])
        elif not parameter.kwarg_only and index < len(node._args):
            values.append(node._args[index])
        else:
            values.append(parameter.default_value)
    return values


def pair_by_parameter(expected: Node, obtained: Node) -> list[Pair] | None:
    """Pair arguments of the same parameter: by position, by keyword, or left to its default.

    If no known signature fits both calls, pair them as `pair_as_written` does. Return None if they do not pair up.
    """
    if not expected._kwargs and not obtained._kwargs and len(expected._args) == len(obtained._args):
        return list(zip(expected._args, obtained._args, strict=True))
    for signature in _signatures_of(expected):
        ours, theirs = _bound(signature, expected), _bound(signature, obtained)
        if ours is not None and theirs is not None:
            return [(value, theirs[name]) for name, value in ours.items()] if ours.keys() == theirs.keys() else None
    return pair_as_written(expected, obtained)


def _bound(signature: inspect.Signature, node: Node) -> dict[str, Any] | None:
    bound = fitted(signature, node._args, node._kwargs)
    if bound is None:
        return None
    bound.apply_defaults()
    return bound.arguments


def _signatures_of(node: Node) -> Sequence[inspect.Signature]:
    """Return the signatures that a call may be meant for; empty if there is none."""
    target = node._target
    if node._op == "call_module":
        return _signature_of_python(value_of(node).forward)
    if isinstance(target, str):
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{target}") if node._op == "call_method" else ()
        return [signature_of_schema(schema) for schema in schemas]
    return get_signature_for_torch_op(target) or _signature_of_python(target)


def _signature_of_python(function: Any) -> Sequence[inspect.Signature]:
    if function in boolean_dispatched:
        function = boolean_dispatched[function]["if_true"]
    try:
        return (inspect.signature(function),)
    except (TypeError, ValueError):
        return ()
