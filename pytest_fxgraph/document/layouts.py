"""How a tensor lies in memory, as text: nothing where it is contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

# Dimensions from the innermost, by the number of dimensions.
_CHANNELS_LAST = {4: ("channels_last", (1, 3, 2, 0)), 5: ("channels_last_3d", (1, 4, 3, 2, 0))}


def strides_of_metadata(metadata: Any) -> Any:
    """Return the strides that metadata of a tensor keeps as an attribute; () of tensors that have none, sparse ones."""
    strides = getattr(metadata, "stride", ())
    return strides if isinstance(strides, Sequence) else ()


def layout_text(sizes: Sequence[Any], strides: Sequence[Any]) -> str:
    """Write a layout: "", " channels_last" or " strides=(1, 4)"; "" where strides are not known.

    The stride of a dimension of size 1 means nothing and is written `*`. Symbolic sizes get no guards.
    """
    count = len(sizes)
    if len(strides) != count:
        return ""
    sizes, strides = [_expression(size) for size in sizes], [_expression(stride) for stride in strides]
    if 0 in sizes or _is_dense(sizes, strides, range(count - 1, -1, -1)):
        return ""
    name, order = _CHANNELS_LAST.get(count, ("", ()))
    if name and _is_dense(sizes, strides, order):
        return f" {name}"
    shown = ["*" if size == 1 else str(stride) for size, stride in zip(sizes, strides, strict=True)]
    return f" strides=({', '.join(shown)}{',' if count == 1 else ''})"


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Count the elements from a tensor's first to its last, which steps between them make more, or fewer.

    0 where there are none, or where sizes or strides are not known.
    """
    if len(strides) != len(sizes) or not all(type(number) is int for number in (*sizes, *strides)) or 0 in sizes:
        return 0
    return 1 + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])


def _expression(size: Any) -> Any:
    """Return the expression of a symbolic size: unlike the size, it can be compared without consequences."""
    return getattr(size.node, "expr", size) if isinstance(size, torch.SymInt) else size


def _is_dense(sizes: Sequence[Any], strides: Sequence[Any], order: Sequence[int]) -> bool:
    """Tell whether elements lie without gaps, in an order of dimensions that begins with the innermost."""
    expected: Any = 1
    for dimension in order:
        if sizes[dimension] == 1:
            continue
        if strides[dimension] != expected:
            return False
        expected = expected * sizes[dimension]
    return True
