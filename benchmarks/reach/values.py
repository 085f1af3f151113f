"""Results of models, compared as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch


def tensors_in(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
    """Yield the tensors of a result: those in containers, in dataclasses and in plain objects, in a fixed order."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if id(value) in seen or value is None or isinstance(value, (str, bytes, int, float, complex, type)):
        return
    seen |= {id(value)}
    if isinstance(value, Mapping):
        children = list(value.values())
    elif isinstance(value, (list, tuple)):
        children = list(value)
    elif isinstance(value, torch.distributions.Distribution):
        children = [getattr(value, name) for name in value.arg_constraints if name in vars(value)]
    else:
        children = list(getattr(value, "__dict__", {}).values())
    for child in children:
        yield from tensors_in(child, seen)


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a tensor, whatever its layout."""
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return tensor


def difference(expected: Any, obtained: Any) -> str | None:
    """Tell in a few words how a result differs from the expected one, or return None if it does not."""
    wanted, found = list(tensors_in(expected)), list(tensors_in(obtained))
    if len(wanted) != len(found):
        return f"{len(found)} tensors in place of {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one.shape != other.shape:
            return f"tensor {number} has shape {tuple(other.shape)} in place of {tuple(one.shape)}"
        if one.dtype != other.dtype:
            return f"tensor {number} has dtype {other.dtype} in place of {one.dtype}"
        if not close(as_plain(one), as_plain(other)):
            return f"tensor {number} has other values"
    return None


def close(expected: torch.Tensor, obtained: torch.Tensor) -> bool:
    """Tell whether two tensors of one shape agree up to rounding."""
    if not (expected.is_floating_point() or expected.is_complex()):
        return torch.equal(expected, obtained)
    size = torch.nan_to_num(expected.abs()).max().item() if expected.numel() else 0.0
    return torch.allclose(obtained, expected, rtol=1e-4, atol=1e-5 * max(1.0, min(size, 1e6)), equal_nan=True)
