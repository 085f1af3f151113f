"""The ways in which the elements of an input can lie in memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

# The simplest first: a search shrinks towards the front. "example" is the order of the user's own tensor.
LAYOUTS = ("example", "contiguous", "reversed", "transposed", "channels_last", "offset", "sliced", "expanded")


def layouts_for(dims: int) -> tuple[str, ...]:
    """Return the layouts that a tensor of some number of dimensions can have."""
    if dims == 0:
        return LAYOUTS[:1]
    left_out = {"reversed", "transposed"} if dims == 1 else set()
    return tuple(layout for layout in LAYOUTS if layout not in left_out and (layout != "channels_last" or dims == 4))


def place(values: torch.Tensor, layout: str, example: torch.Tensor) -> torch.Tensor:
    """Return contiguous values in a layout; where it repeats elements, those of one index take the others' place."""
    if not values.dim() or not values.numel():
        return values
    return _PLACES[layout](values, example)


def _permuted(values: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Lay the dimensions into memory in an order, the outermost first."""
    inverse = [order.index(dim) for dim in range(len(order))]
    return values.permute(order).contiguous().permute(inverse)


def _as_example(values: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    if example.dim() != values.dim() or example.is_contiguous():
        return values
    strides = example.stride()
    return _permuted(values, sorted(range(values.dim()), key=lambda dim: -strides[dim]))


def _sliced(values: torch.Tensor) -> torch.Tensor:
    """Return every second element of a row twice as long."""
    return torch.stack((values, torch.zeros_like(values)), dim=-1).flatten(-2)[..., ::2]


def _offset(values: torch.Tensor) -> torch.Tensor:
    flat = torch.cat((values.new_zeros(1), values.reshape(-1)))
    return flat[1:].view(values.shape)


def _expanded(values: torch.Tensor) -> torch.Tensor:
    """Show the first element of one dimension in place of all."""
    dim = next((dim for dim, size in enumerate(values.shape) if size > 1), 0)
    return values.narrow(dim, 0, 1).clone().expand(values.shape)


_PLACES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "example": _as_example,
    "contiguous": lambda values, example: values,
    "reversed": lambda values, example: _permuted(values, list(range(values.dim()))[::-1]),
    "transposed": lambda values, example: values.transpose(-1, -2).contiguous().transpose(-1, -2),
    "channels_last": lambda values, example: _permuted(values, [0, 2, 3, 1]),
    "offset": lambda values, example: _offset(values),
    "sliced": lambda values, example: _sliced(values),
    "expanded": lambda values, example: _expanded(values),
}
