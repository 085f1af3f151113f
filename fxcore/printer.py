"""Nodes as text and as a table."""

from __future__ import annotations

from collections.abc import Iterable

from fxcore.errors import FxError
from fxcore.node import Node
from fxcore.node_text import format_node


class MissingTabulateError(FxError, ImportError):
    """The optional library that draws tables is not installed."""


def graph_text(nodes: Iterable[Node]) -> str:
    """Return the nodes one a line, as `print(graph)` shows them."""
    placeholders: list[str] = []
    lines = [format_node(node, placeholders, None, False) for node in nodes]
    head = f"graph({', '.join(placeholders)}):"
    return "\n    ".join([head, *[line for line in lines if line]])


def print_table(nodes: Iterable[Node]) -> None:
    """Print the nodes as a table of opcode, name, target, args and kwargs. Needs the library `tabulate`."""
    try:
        from tabulate import tabulate  # type: ignore[import-untyped,unused-ignore]  # an extra, without types
    except ImportError as error:
        raise MissingTabulateError(
            "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. "
            "Run `pip install tabulate` to install the library."
        ) from error
    rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in nodes]
    print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))
