"""Further inputs of the same spec: shapes, dtypes, strides and aliasing kept, values drawn anew."""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.arguments import Arguments, copy_arguments, is_plain

_BENDS = (0.0, -0.0, 1.0, -1.0)


def fresh_sample(arguments: Arguments, seed: int) -> Arguments:
    """Make arguments with new random values in place of the tensors' own.

    New values stay between the least and the largest of the tensor they replace, so that indices stay valid,
    probabilities stay probabilities, and lengths stay lengths. Both ends, and of 0, -0, 1 and -1 those that lie
    between them, are among the new values. What is no tensor is kept.
    """
    sample = copy_arguments(arguments).arguments
    generator = torch.Generator().manual_seed(seed)
    filled: set[int] = set()
    for _, tensor in sample.tensors():
        if not is_plain(tensor) or tensor.is_meta or not tensor.numel():
            continue
        storage = tensor.untyped_storage()
        if storage._cdata not in filled:
            filled.add(storage._cdata)
            _refill(tensor, generator)
    return sample


def _refill(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Draw new values for the whole storage: elements of a view may share memory and cannot be written one by one."""
    storage = tensor.untyped_storage()
    elements = storage.nbytes() // tensor.element_size()
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, 0, (elements,), (1,))
    flat.copy_(_draw(tensor.detach().cpu(), elements, generator))


def _draw(like: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    if like.dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if like.is_complex():
        return torch.randn(count, dtype=torch.complex128, generator=generator) * like.abs().double().max()
    low, high = like.double().min(), like.double().max()
    if not like.is_floating_point():
        least, largest = int(like.min()), int(like.max())
        whole = torch.randint(least, largest + 1, (count,), generator=generator)
        return _with_edges(whole, least, largest, generator) if largest > least else torch.full((count,), least)
    if not bool((low < high) & low.isfinite() & high.isfinite()):
        # All alike, or not finite: nothing says what range is meant.
        return torch.randn(count, dtype=torch.float64, generator=generator)
    drawn = low + (high - low) * torch.rand(count, dtype=torch.float64, generator=generator)
    return _with_edges(drawn, float(low), float(high), generator)


def _with_edges(drawn: torch.Tensor, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """Put the values at which functions bend at random places; small tensors stay as they were drawn."""
    edges = [low, high, *(value for value in _BENDS if low <= value <= high)]
    if drawn.numel() >= 2 * len(edges):
        places = torch.randperm(drawn.numel(), generator=generator)[: len(edges)]
        drawn[places] = torch.tensor(edges, dtype=drawn.dtype)
    return drawn
