"""The arguments of one call: read from the user's inputs, copied for each run, drawn anew for further samples."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fxcore.state.storage import copy_storage, copy_tensor, flat_view, is_plain, view_like
from pytest_fxgraph.captures.shapes import positional_arguments
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.errors import InputsError
from pytest_fxgraph.grouping import grouped

NamedTensors = list[tuple[str, torch.Tensor]]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call of a model."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def named(self) -> list[tuple[str, Any]]:
        """List the arguments with their names in messages: "input 0", "input scale"."""
        return [(f"input {name}", value) for name, value in [*enumerate(self.args), *self.kwargs.items()]]

    def modules(self) -> dict[int, Any]:
        """Map the ids of arguments that are modules to the modules: a memo for copies that share them."""
        values = [*self.args, *self.kwargs.values()]
        return {id(value): value for value in values if isinstance(value, torch.nn.Module)}

    def copied(self, memo: dict[int, Any]) -> Arguments:
        """Return a deep copy; `memo` has, by id, the copies of values that are not copied by deepcopy."""
        return Arguments(*copy.deepcopy((self.args, self.kwargs), memo))

    def tensors(self) -> NamedTensors:
        """List the tensors inside the arguments with their paths: "input 0", "input 1['mask']"."""
        return [pair for name, value in self.named() for pair in tensors_in(value, name)]


# A flat leaf, with size, stride and offset of the input as a view of the leaf.
LeafView = tuple[torch.Tensor, tuple[Any, ...]]


@dataclass(frozen=True)
class ArgumentCopy:
    """Arguments that a run may change, and the leaves for gradients of inputs, by input path."""

    arguments: Arguments
    leaves: dict[str, LeafView] = field(default_factory=dict)


def arguments_of(inputs: object, kwargs: Mapping[str, Any] | None = None) -> Arguments:
    """Read a tuple of positional arguments, or one tensor as the only argument.

    Raises InputsError (a TypeError) for any other `inputs`, and for `kwargs` that do not map names to values.
    """
    args = positional_arguments(inputs)
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise InputsError(
            f"kwargs: expected names and values, got {type(kwargs).__name__}; write kwargs={{'name': value}}"
        )
    return Arguments(args, dict(kwargs or {}))


def copy_arguments(arguments: Arguments, *, with_gradients: bool = False) -> ArgumentCopy:
    """Copy the arguments; shared memory, strides and `requires_grad` stay as they are.

    With gradients, floating inputs become views of fresh leaves, so that a forward may still change them in place.
    Raises InputsError (a TypeError) if copy.deepcopy() cannot copy a value.
    """
    memo = arguments.modules()
    leaves: dict[str, LeafView] = {}
    try:
        for group in _by_storage(arguments.tensors()):
            if with_gradients and _can_share_a_leaf(group):
                _copy_as_views_of_a_leaf(group, memo, leaves)
            else:
                _copy_with_storage(group, memo)
        return ArgumentCopy(arguments.copied(memo), leaves)
    except Exception as error:
        raise InputsError(
            "cannot copy the inputs for each run, and with one copy the first run could change the second: "
            f"{type(error).__name__}: {error}. Hand over values that copy.deepcopy() can copy"
        ) from error


def _by_storage(named: NamedTensors) -> list[NamedTensors]:
    """Group the tensors that share a storage; a tensor that is not plain is a group of its own."""

    def storage(pair: tuple[str, torch.Tensor]) -> tuple[str, int]:
        return ("storage", pair[1].untyped_storage()._cdata) if is_plain(pair[1]) else ("object", id(pair[1]))

    return list(grouped(named, storage).values())


def _can_share_a_leaf(group: NamedTensors) -> bool:
    dtypes = {tensor.dtype for _, tensor in group}
    first = group[0][1]
    return is_plain(first) and len(dtypes) == 1 and (first.is_floating_point() or first.is_complex())


def _copy_as_views_of_a_leaf(group: NamedTensors, memo: dict[int, Any], leaves: dict[str, LeafView]) -> None:
    first = group[0][1]
    leaf = flat_view(copy_storage(first), first.dtype).requires_grad_()
    working_copy = leaf.clone()
    for path, tensor in group:
        view = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        if id(tensor) not in memo:
            memo[id(tensor)] = working_copy.as_strided(*view)
        leaves[path] = (leaf, view)


def _copy_with_storage(group: NamedTensors, memo: dict[int, Any]) -> None:
    first = group[0][1]
    if not is_plain(first):
        memo[id(first)] = copy_tensor(first)
        return
    storage = copy_storage(first)
    for _, tensor in group:
        if id(tensor) not in memo:
            memo[id(tensor)] = view_like(tensor, storage).requires_grad_(tensor.requires_grad)


# Many functions change their behaviour at these values.
_SPECIAL_VALUES = (0.0, -0.0, 1.0, -1.0)


def fresh_sample(arguments: Arguments, seed: int, *, is_inner: bool = False) -> Arguments:
    """Return arguments with new random values in the tensors; everything else is kept.

    The new values lie between the minimum and the maximum of the old tensor, so that indices and probabilities stay
    valid. Both ends are among the values, and also 0, -0, 1 and -1 if they lie between the ends. With `is_inner`,
    floats keep away from the ends: the greatest value of all calls is then another than that of the last call.
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
            # The whole storage: elements of a view may share memory and cannot be written one by one.
            flat = flat_view(storage, tensor.dtype)
            with contextlib.suppress(RuntimeError):  # of a dtype that torch only stores
                flat.copy_(_draw(tensor.detach().cpu(), flat.numel(), generator, is_inner=is_inner))
    return sample


def _draw(like: torch.Tensor, count: int, generator: torch.Generator, *, is_inner: bool) -> torch.Tensor:
    if like.dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if like.is_complex():
        return torch.randn(count, dtype=torch.complex128, generator=generator) * like.abs().double().max()
    low, high = like.double().min(), like.double().max()
    if not like.is_floating_point():
        wide = like.long()  # some unsigned types know no minimum
        least, largest = int(wide.min()), int(wide.max())
        if least == largest:
            return torch.full((count,), least)
        # torch draws no number beyond the largest of 64 bits, which would follow the largest.
        whole = torch.randint(least, min(largest + 1, 2**63 - 1), (count,), generator=generator)
        return _with_edges(whole, least, largest, generator)
    if not bool((low < high) & low.isfinite() & high.isfinite()):
        # Equal or not finite values show no range.
        return torch.randn(count, dtype=torch.float64, generator=generator)
    drawn = torch.rand(count, dtype=torch.float64, generator=generator)
    if is_inner:
        return low + (high - low) * (0.25 + 0.5 * drawn)
    return _with_edges(low + (high - low) * drawn, float(low), float(high), generator)


def _with_edges(drawn: torch.Tensor, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """Put the ends of the range and the special values at random places; small tensors stay as they were drawn."""
    edges = [low, high, *(value for value in _SPECIAL_VALUES if low <= value <= high)]
    if drawn.numel() >= 2 * len(edges):
        places = torch.randperm(drawn.numel(), generator=generator)[: len(edges)]
        drawn[places] = torch.tensor(edges, dtype=drawn.dtype)
    return drawn
