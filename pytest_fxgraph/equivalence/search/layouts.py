"""The layouts of an input's elements in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

# The simplest layout first: hypothesis shrinks towards the front. "example" is the order of the user's own tensor.
LAYOUTS = ("example", "contiguous", "reversed", "transposed", "channels_last", "offset", "sliced", "expanded")


def layouts_for(dims: int) -> tuple[str, ...]:
    """List the layouts that a tensor of some number of dimensions can have."""
    if dims == 0:
        return LAYOUTS[:1]
    left_out = {"reversed", "transposed"} if dims == 1 else set()
    return tuple(layout for layout in LAYOUTS if layout not in left_out and (layout != "channels_last" or dims == 4))


def place(values: torch.Tensor, layout: str, example: torch.Tensor) -> torch.Tensor:
    """Return contiguous values in a layout; "expanded" repeats the first elements of one dimension."""
    dims = range(values.dim())
    if not values.dim() or not values.numel() or layout == "contiguous":
        return values
    if layout == "example":
        strides = example.stride()
        return values if example.is_contiguous() else _in_order(values, sorted(dims, key=lambda dim: -strides[dim]))
    if layout == "reversed":
        return _in_order(values, dims[::-1])
    if layout == "transposed":
        return values.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "channels_last":
        return _in_order(values, (0, 2, 3, 1))
    if layout == "offset":
        return torch.cat((values.new_zeros(1), values.reshape(-1)))[1:].view(values.shape)
    if layout == "sliced":  # every second element of rows twice as long
        return torch.stack((values, torch.zeros_like(values)), dim=-1).flatten(-2)[..., ::2]
    repeated = next((dim for dim in dims if values.shape[dim] > 1), 0)
    return values.narrow(repeated, 0, 1).clone().expand(values.shape)


def _in_order(values: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """Lay the dimensions into memory in an order, the outermost dimension first."""
    inverse = [order.index(dim) for dim in range(len(order))]
    return values.permute(tuple(order)).contiguous().permute(inverse)
