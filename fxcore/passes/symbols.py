"""Symbols in recorded shapes: those of `meta["example_value"]` in graphs that came from torch's own tracers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore.node import Node

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def symbol_defined_by(node: Node) -> Any | None:
    """Return the symbol that the value of `node` is, not a formula over symbols; None if it is none."""
    value = node.meta.get("example_value")
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return None
    expression = value.node.expr
    return expression if getattr(expression, "is_Symbol", False) else None


def symbols_in(node: Node) -> list[Any]:
    """Return the symbols that the recorded value of `node` has in its sizes, sorted by name."""
    found: set[Any] = set()
    for number in _numbers_in(node.meta.get("example_value")):
        if isinstance(number, _SYMBOLIC):
            found |= number.node.expr.free_symbols
    return sorted(found, key=str)


def _numbers_in(value: Any) -> Iterator[Any]:
    for leaf in pytree.tree_leaves(value):
        if not isinstance(leaf, torch.Tensor):
            yield leaf
        elif leaf.layout is torch.strided:
            yield from (*leaf.size(), *leaf.stride(), leaf.storage_offset())
        else:
            yield from leaf.size()
