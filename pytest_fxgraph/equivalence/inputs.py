"""The arguments of one call: read from what the user wrote, copied for each lane."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from pytest_fxgraph.capture.shapes import positional_arguments
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.errors import InputsError


@dataclass(frozen=True)
class Arguments:
    """What a model is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """List all tensors with the words that name them: "input 0", "input 1['mask']", "input scale"."""
        found = [pair for index, value in enumerate(self.args) for pair in tensors_in(value, f"input {index}")]
        return found + [pair for name, value in self.kwargs.items() for pair in tensors_in(value, f"input {name}")]

    def named(self) -> list[tuple[str, Any]]:
        """List the arguments themselves with the words that name them."""
        numbered = [(f"input {index}", value) for index, value in enumerate(self.args)]
        return numbered + [(f"input {name}", value) for name, value in self.kwargs.items()]


@dataclass(frozen=True)
class ArgumentCopy:
    """Arguments that a lane may change, and the leaves that gradients of inputs are asked for."""

    arguments: Arguments
    # By input path: the flat leaf that the input was made from, and the view of it that the input is.
    leaves: dict[str, tuple[torch.Tensor, tuple[Any, ...]]] = field(default_factory=dict)


def arguments_of(inputs: object, kwargs: Mapping[str, Any] | None = None) -> Arguments:
    """Read a tuple of positional arguments, or a lone tensor as one argument; refuse anything else."""
    args = positional_arguments(inputs)
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise InputsError(
            f"kwargs: expected names and values, got {type(kwargs).__name__}; write kwargs={{'name': value}}"
        )
    return Arguments(args, dict(kwargs or {}))


def copy_arguments(arguments: Arguments, *, with_gradients: bool = False) -> ArgumentCopy:
    """Copy the arguments, keeping what they share, their strides and requires_grad.

    With gradients, floating inputs become views of fresh leaves, so that a forward may still change them in place.
    """
    named = arguments.tensors()
    memo: dict[int, Any] = {id(module): module for module in _modules_in(arguments)}
    leaves: dict[str, tuple[torch.Tensor, tuple[Any, ...]]] = {}
    for group in _by_storage(named):
        if with_gradients and _can_be_views_of_one_leaf(group):
            _copy_as_views_of_a_leaf(group, memo, leaves)
        else:
            _copy_with_storage(group, memo)
    try:
        args, kwargs = copy.deepcopy((arguments.args, arguments.kwargs), memo)
    except Exception as error:
        raise InputsError(
            f"cannot copy the inputs for each lane, and running both on one copy would let them disturb each other: "
            f"{type(error).__name__}: {error}. Hand over values that copy.deepcopy() can copy"
        ) from error
    return ArgumentCopy(Arguments(args, kwargs), leaves)


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is a dense view of a storage, with nothing behind it that we do not know."""
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and not (
        tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
    )  # fmt: skip


def _modules_in(arguments: Arguments) -> list[torch.nn.Module]:
    values = [*arguments.args, *arguments.kwargs.values()]
    return [value for value in values if isinstance(value, torch.nn.Module)]


def _by_storage(named: list[tuple[str, torch.Tensor]]) -> list[list[tuple[str, torch.Tensor]]]:
    """Group the tensors that look at one storage; what is no plain view stands alone."""
    groups: dict[object, list[tuple[str, torch.Tensor]]] = {}
    for path, tensor in named:
        key = ("storage", tensor.untyped_storage()._cdata) if is_plain(tensor) else ("object", id(tensor))
        groups.setdefault(key, []).append((path, tensor))
    return list(groups.values())


def _can_be_views_of_one_leaf(group: list[tuple[str, torch.Tensor]]) -> bool:
    dtypes = {tensor.dtype for _, tensor in group}
    first = group[0][1]
    return is_plain(first) and len(dtypes) == 1 and (first.is_floating_point() or first.is_complex())


def _copy_as_views_of_a_leaf(
    group: list[tuple[str, torch.Tensor]],
    memo: dict[int, Any],
    leaves: dict[str, tuple[torch.Tensor, tuple[Any, ...]]],
) -> None:
    first = group[0][1]
    storage = _copy_of_storage(first)
    elements = storage.nbytes() // first.element_size()
    leaf = torch.empty(0, dtype=first.dtype, device=first.device).set_(storage, 0, (elements,), (1,)).requires_grad_()
    working_copy = leaf.clone()
    for path, tensor in group:
        view = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        if id(tensor) not in memo:
            memo[id(tensor)] = working_copy.as_strided(*view)
        leaves[path] = (leaf, view)


def copy_of_view(tensor: torch.Tensor) -> torch.Tensor:
    """Copy one tensor with its strides, cut off from autograd and from everybody who shares its storage."""
    if not is_plain(tensor):
        return _copy_unusual(tensor)
    fresh = _view(tensor, _copy_of_storage(tensor))
    return fresh.requires_grad_(tensor.requires_grad)


def _copy_with_storage(group: list[tuple[str, torch.Tensor]], memo: dict[int, Any]) -> None:
    first = group[0][1]
    if not is_plain(first):
        memo[id(first)] = _copy_unusual(first)
        return
    storage = _copy_of_storage(first)
    for _, tensor in group:
        if id(tensor) in memo:
            continue
        memo[id(tensor)] = _view(tensor, storage).requires_grad_(tensor.requires_grad)


def _copy_of_storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    storage = tensor.untyped_storage()
    # torch leaves this constructor without types.
    fresh: torch.UntypedStorage = torch.UntypedStorage(storage.nbytes(), device=storage.device)  # type: ignore[no-untyped-call]
    return fresh.copy_(storage)


def _view(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Look at a storage as a tensor looks at its own."""
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return fresh.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _copy_unusual(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a subclass, a sparse, quantized, nested or lazily conjugated tensor."""
    fresh = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fresh, tensor.requires_grad)
    if tensor.is_conj() and not fresh.is_conj():
        fresh = fresh.conj().resolve_conj().conj()
    return fresh.requires_grad_(tensor.requires_grad)


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
