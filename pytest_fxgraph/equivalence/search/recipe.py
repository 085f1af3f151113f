"""A recipe says how the inputs of one try differ from the user's: sizes, values, layouts. A space limits recipes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

from fxcore.state.storage import flat_view
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.values import Fill, ValueRange, filled

_FLOATS = (torch.float32, torch.float64, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.bool)

# The simplest layout first: hypothesis shrinks towards the front. "example" is the order of the user's own tensor.
LAYOUTS = ("example", "contiguous", "reversed", "transposed", "channels_last", "offset", "sliced", "expanded")


def layouts_for(dims: int) -> tuple[str, ...]:
    """List the layouts that a tensor of some number of dimensions can have."""
    if dims == 0:
        return LAYOUTS[:1]
    left_out = {"reversed", "transposed"} if dims == 1 else set()
    return tuple(layout for layout in LAYOUTS if layout not in left_out and (layout != "channels_last" or dims == 4))


def other_dtypes(dtype: torch.dtype) -> list[torch.dtype]:
    """List dtypes of the same kind: of real numbers, or of integers and bools."""
    alike = () if dtype.is_complex else _FLOATS if dtype.is_floating_point else _INTEGERS
    return [each for each in alike if each is not dtype]


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


# The contexts of both calls, the simplest first.
CONTEXTS = ("", "no_grad", "autocast")


class Recipe(NamedTuple):
    """The facts that make one try; equal recipes make equal inputs."""

    sizes: tuple[int, ...]  # one for each SizeVariable
    fills: tuple[Fill, ...]  # one for each TensorPlace, as are the layouts
    layouts: tuple[str, ...]
    scalars: tuple[Any, ...]  # one for each ScalarPlace
    context: str = ""
    second_call: bool = False
    seed: int = 0
    kept: tuple[int, ...] = ()  # index bits of the random elements that are not zero

    @property
    def is_random(self) -> bool:
        """Return whether the values of a tensor are random numbers."""
        return any(isinstance(fill, str) for fill in self.fills)


class SizeVariable(NamedTuple):
    """Dimensions that change together, and the sizes that eager accepted for them, ascending."""

    example: int
    options: tuple[int, ...]
    large: int | None = None  # with this size, one try compares thousands of values


class TensorPlace(NamedTuple):
    """One tensor among the arguments."""

    example: torch.Tensor
    values: ValueRange
    sizes: tuple[int | None, ...]  # for each dimension the index of its SizeVariable

    @property
    def layouts(self) -> tuple[str, ...]:
        """List the layouts that the tensor can have, the simplest first."""
        return layouts_for(self.example.dim())


class ScalarPlace(NamedTuple):
    """One argument that is a bool or a number, and its possible values; the example comes first."""

    name: int | str
    options: tuple[Any, ...]


class SearchSpace(NamedTuple):
    """The user's arguments, and the parts of them that a search may change."""

    arguments: Arguments
    tensors: tuple[TensorPlace, ...]
    sizes: tuple[SizeVariable, ...] = ()
    scalars: tuple[ScalarPlace, ...] = ()
    contexts: tuple[str, ...] = CONTEXTS

    def example(self, seed: int = 0) -> Recipe:
        """Return the recipe that draws other values between the ends of the user's, and changes nothing else."""
        return Recipe(
            sizes=tuple(variable.example for variable in self.sizes),
            fills=tuple("range" if "range" in each.values.kinds else "normal" for each in self.tensors),
            layouts=tuple(each.layouts[0] for each in self.tensors),
            scalars=tuple(each.options[0] for each in self.scalars),
            seed=seed,
        )

    def is_extreme(self, recipe: Recipe) -> bool:
        """Return whether overflow, flushing to zero or NaN alone may make right graphs differ."""
        return any(each.values.is_extreme(fill) for each, fill in zip(self.tensors, recipe.fills, strict=True))

    def make(self, recipe: Recipe) -> Arguments:
        """Make the arguments of a recipe."""
        memo = self.arguments.modules()
        for index, each in enumerate(self.tensors):
            memo[id(each.example)] = _tensor(index, each, recipe)
        made = self.arguments.copied(memo)
        args = [*made.args]
        for scalar, value in zip(self.scalars, recipe.scalars, strict=True):
            if isinstance(scalar.name, int):
                args[scalar.name] = value
            else:
                made.kwargs[scalar.name] = value
        return Arguments(tuple(args), made.kwargs)


def _tensor(index: int, each: TensorPlace, recipe: Recipe) -> torch.Tensor:
    sizes = zip(each.example.shape, each.sizes, strict=True)
    shape = tuple(size if variable is None else recipe.sizes[variable] for size, variable in sizes)
    count = torch.Size(shape).numel()
    values = filled(recipe.fills[index], each.values, count, recipe.seed * 64 + index, recipe.kept)
    with torch.no_grad():
        made = place(values.reshape(shape), recipe.layouts[index], each.example)
        if made.device != each.example.device:  # move the whole memory: .to() would close gaps
            flat = flat_view(made.untyped_storage(), made.dtype).to(each.example.device)
            made = flat.as_strided(made.shape, made.stride(), made.storage_offset())
    return made.requires_grad_(each.example.requires_grad)


def context_of(recipe: Recipe, device: str) -> AbstractContextManager[Any]:
    """Return the context of both calls: no_grad, autocast in bfloat16, or an empty one."""
    if recipe.context == "no_grad":
        return torch.no_grad()
    return torch.autocast(device, torch.bfloat16) if recipe.context == "autocast" else nullcontext()
