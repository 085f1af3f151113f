"""One node as a line of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from fxcore.errors import FxError
from fxcore.node_data.arguments import Value
from fxcore.node_data.targets import readable_target, type_repr


class PrintableNode(Protocol):
    """What printing reads of a node: fields, since asking a property costs as much as formatting what it returns."""

    _op: str
    _name: str
    _target: Any
    _type: Any
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    users: dict[Any, None]
    meta: dict[str, Any]


_UNLIMITED = float("inf")

# Ours, since torch's own table is younger than the oldest torch that is supported, and was written anew in later ones.
_DTYPE_NAMES = {
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"complex{bits}": f"c{bits}" for bits in (32, 64, 128)},
    **{f"float8_{kind}": f"f8{kind}" for kind in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")},
    "float4_e2m1fn_x2": "f4e2m1fnx2",
    "bool": "b8",
    "bfloat16": "bf16",
    "bits8": "b8x1",
    "bits16": "b16x1",
    **{f"bits{shape}": f"b{shape}" for shape in ("1x8", "2x4", "4x2")},
}
DTYPE_ABBREVIATIONS: dict[torch.dtype, str] = {
    getattr(torch, name): short for name, short in _DTYPE_NAMES.items() if hasattr(torch, name)
}

# Asked by exact type, before the questions that other arguments must be asked.
_PRINTED_BY_STR = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})


def format_argument(arg: Any, longest_list: float = float("inf")) -> str:
    """Return an argument as graph printouts show it, with `%name` for a node."""
    if type(arg) in _PRINTED_BY_STR:
        return str(arg)
    if isinstance(arg, Value):
        return f"%{arg}"
    if hasattr(arg, "_custom_fx_repr_fn"):
        return str(arg._custom_fx_repr_fn())
    if isinstance(arg, (list, tuple)):
        return _format_sequence(arg, longest_list)
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {format_argument(item)}" for key, item in arg.items()) + "}"
    return str(arg)


def _format_sequence(items: list[Any] | tuple[Any, ...], longest: float) -> str:
    shown = items if len(items) <= longest else items[: int(longest)]
    # Nearly all items are values or numbers, and looking here saves a call for each.
    text = ", ".join(
        [
            f"%{item._name}"  # type: ignore[attr-defined]  # the one kind of Value is a node
            if isinstance(item, Value) and item._repr_fn is None  # type: ignore[attr-defined]
            else str(item)
            if type(item) in _PRINTED_BY_STR
            else format_argument(item)
            for item in shown
        ]
    )
    cut = f", ...[total_len={len(items)}]" if len(items) > longest else ""
    if isinstance(items, list):
        return f"[{text}{cut}]"
    return f"({text}{',' if len(items) == 1 else ''}{cut})"


def shape_text(shape: Iterable[Any]) -> str:
    """Return `[2, 3]` for a shape, stride or anything else of that kind."""
    return f"[{', '.join([str(size) for size in shape])}]"


def format_node(
    node: PrintableNode, placeholders: list[str] | None, returned: list[str] | None, tensor_metadata: bool
) -> str | None:
    """Return the line that stands for `node` in `print(graph)`.

    A placeholder's text is appended to `placeholders` instead if that list has items, and the output's type is
    written into `returned`; both are for printing a whole graph.
    """
    op = node._op
    if op == "placeholder":
        return _format_placeholder(node, placeholders)
    type_text = _type_text(node, tensor_metadata) if tensor_metadata or node._type is not None else ""
    head = f"%{node._name} : {type_text}[num_users={len(node.users)}] = {op}"
    if op == "get_attr":
        return f"{head}[target={readable_target(node._target)}]"
    if op == "output":
        if node._type and returned:
            returned[0] = f" -> {type_repr(node._type)}"
        return f"return {node._args[0]}"
    target, args = node._target, _format_sequence(node._args, _UNLIMITED)
    if type(target) is not str:
        target = readable_target(target)
    kwargs = format_argument(node._kwargs) if node._kwargs else "{}"
    return f"{head}[target={target}](args = {args}, kwargs = {kwargs})"


def _format_placeholder(node: PrintableNode, placeholders: list[str] | None) -> str | None:
    if placeholders:
        placeholders.append(f"{node._target}: {type_repr(node._type)}" if node._type else node._target)
        return None
    type_text = f"{type_repr(node._type)} " if node._type else ""
    default = f"(default={node._args[0]})" if node._args else ""
    return f"%{node._name} : {type_text}[num_users={len(node.users)}] = placeholder[target={node._target}]{default}"


def _type_text(node: PrintableNode, tensor_metadata: bool) -> str:
    if tensor_metadata and node._op not in ("get_attr", "output"):
        value = example_value(node)
        if isinstance(value, torch.Tensor) and value.layout not in (torch.sparse_csc, torch.sparse_csr):
            sizes = (
                f"{DTYPE_ABBREVIATIONS[value.dtype]}{shape_text(value.shape)}{shape_text(value.stride())}{value.device}"
            )
            return f'Tensor "{sizes}"'
    return "" if node._type is None else f"{type_repr(node._type)} "


def example_value(node: PrintableNode) -> Any:
    """Return the example that `meta` holds for what `node` computes, whoever put it there; None without one."""
    meta = node.meta
    return meta.get("val", meta.get("tensor_meta", meta.get("example_value")))


class MissingTabulateError(FxError, ImportError):
    """The optional library that draws tables is not installed."""


def graph_text(nodes: Iterable[PrintableNode]) -> str:
    """Return the nodes one a line, as `print(graph)` shows them."""
    placeholders: list[str] = []
    lines = [format_node(node, placeholders, None, False) for node in nodes]
    head = f"graph({', '.join(placeholders)}):"
    return "\n    ".join([head, *[line for line in lines if line]])


def print_table(nodes: Iterable[PrintableNode]) -> None:
    """Print the nodes as a table of opcode, name, target, args and kwargs.

    Raises MissingTabulateError (an ImportError) if the library `tabulate` is not installed.
    """
    try:
        from tabulate import tabulate  # type: ignore[import-untyped,unused-ignore]  # an extra, without types
    except ImportError as error:
        raise MissingTabulateError(
            "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. "
            "Run `pip install tabulate` to install the library."
        ) from error
    rows = [[node._op, node._name, node._target, node._args, node._kwargs] for node in nodes]
    print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))
