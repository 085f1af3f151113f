"""Kinds of operators: overloads and packets of torch, and look-alikes of executorch and torch.library."""

from __future__ import annotations

import types
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

_NO_OPERATORS = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_OVERLOAD, _PACKET = "OpOverload", "OpOverloadPacket"


def operator_name(target: Any) -> str | None:
    """Return an operator's own name: `aten.add.Tensor`, `edge.aten.add.Tensor`; None if `target` is no operator."""
    if isinstance(target, OpOverload | OpOverloadPacket):
        return str(target)
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target.__name__}"
    if isinstance(target, _NO_OPERATORS):
        return None
    wrapped = getattr(target, "_opoverload", None)  # of torch.library.custom_op
    if isinstance(wrapped, OpOverload):
        return str(wrapped)
    schema = schema_of(target)
    if schema is not None:
        overload = getattr(schema, "overload_name", "") or "default"
        return ".".join([*_dialect(target), schema.name.replace("::", "."), overload])
    if is_packet(target):
        # executorch's packets of the edge dialect are qualified by torch's namespace alone.
        return ".".join([*_dialect(target), str(target._qualified_op_name).replace("::", ".")])
    return None


def packet_name(target: Any) -> str | None:
    """Return an operator's name without its overload: `aten.add`; None if `target` has no overloads."""
    name = operator_name(target)
    if name is None or isinstance(target, HigherOrderOperator):
        return None
    return name if is_packet(target) else name.rpartition(".")[0]


def schema_of(target: Any) -> Any:
    """Return the schema of an overload of torch, or of an object that resembles one; None for anything else."""
    if isinstance(target, OpOverload):
        return target._schema
    if isinstance(target, (*_NO_OPERATORS, OpOverloadPacket, HigherOrderOperator)):
        return None
    wrapped = getattr(target, "_opoverload", None)
    if isinstance(wrapped, OpOverload):
        return wrapped._schema
    schema = getattr(target, "_schema", None)
    is_schema = isinstance(getattr(schema, "name", None), str) and hasattr(schema, "arguments")
    return schema if is_schema and hasattr(schema, "returns") else None


def tags_of(target: Any) -> tuple[Any, ...]:
    """Return the tags of an overload, or of the overload that an object wraps."""
    for holder in (target, getattr(target, "_op", None), getattr(target, "_opoverload", None)):
        tags = getattr(holder, "tags", None)
        if isinstance(tags, (list, tuple, set, frozenset)):
            return tuple(tags)
    return ()


def is_packet(target: Any) -> bool:
    """Return whether a target is an operator without an overload, of torch or of a library that resembles torch."""
    if isinstance(target, OpOverloadPacket):
        return True
    if isinstance(target, (*_NO_OPERATORS, OpOverload, HigherOrderOperator)):
        return False
    return isinstance(getattr(target, "_qualified_op_name", None), str) and hasattr(target, "_overload_names")


def overloads_of(packet: Any) -> list[Any]:
    """Return the overloads of a packet."""
    return [getattr(packet, name or "default") for name in packet._overload_names]


def dialect_of(target: Any) -> str | None:
    """Return the dialect that names torch's operators anew: `edge` for `edge.aten.add`; None for any other target."""
    name = operator_name(target) or ""
    return next((dialect for dialect in _dialect(target) if name.startswith(f"{dialect}.")), None)


def overload_behind(target: Any) -> Any:
    """Return torch's overload behind an overload of a dialect; any other target itself."""
    wrapped = getattr(target, "_op", None)
    return wrapped if isinstance(wrapped, OpOverload) else target


def _dialect(target: Any) -> list[str]:
    """Return the dialect of an operator, read off its class name: `EdgeOpOverload` belongs to `edge`."""
    kind = type(target).__name__
    name = kind.removesuffix(_PACKET if kind.endswith(_PACKET) else _OVERLOAD)
    return [name.lower()] if name else []
