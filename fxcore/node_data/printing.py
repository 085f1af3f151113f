"""A node as one line of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from fxcore.errors import FxError
from fxcore.node_data.arguments import Value
from fxcore.node_data.targets import readable_target, type_repr


class PrintableNode(Protocol):
    """The fields of a node that printing reads. A property would cost as much time as formatting its value."""

    _op: str
    _name: str
    _target: Any
    _type: Any
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    users: dict[Any, None]
    meta: dict[str, Any]


_UNLIMITED = float("inf")

# Our own table, because torch 2.6 has none and later versions changed theirs.
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

# The exact type is checked first: other arguments need slower checks.
_PRINTED_BY_STR = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})


def format_argument(arg: Any, longest_list: float = float("inf")) -> str:
    """Return an argument in the form of graph printouts, with `%name` for a node."""
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
    # Most items are values or numbers; a check here saves a call for each.
    text = ", ".join(
        [
            f"%{item._name}"  # type: ignore[attr-defined]  # every Value is a node
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
    """Return `[2, 3]` for a shape or stride."""
    return f"[{', '.join([str(size) for size in shape])}]"


def format_node(
    node: PrintableNode, placeholders: list[str] | None, returned: list[str] | None, tensor_metadata: bool
) -> str | None:
    """Return the line of `node` in `print(graph)`.

    The two lists serve the printing of a whole graph. If `placeholders` has items, a placeholder's text is appended to
    it and None is returned. The output's type is written into `returned`.
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
    """Return the example value that `meta` holds for the result of `node`; None without one."""
    meta = node.meta
    return meta.get("val", meta.get("tensor_meta", meta.get("example_value")))


class MissingTabulateError(FxError, ImportError):
    """The optional library `tabulate` is not installed."""


def graph_text(nodes: Iterable[PrintableNode]) -> str:
    """Return the text of `print(graph)`: one line per node."""
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
