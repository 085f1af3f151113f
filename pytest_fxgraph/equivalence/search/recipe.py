"""A recipe says how the inputs of one try differ from the user's; a space, what recipes may say."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fxcore.state.storage import flat_view
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.layouts import layouts_for, place
from pytest_fxgraph.equivalence.search.values import EXTREME_KINDS, ValueRange, draw, kinds_for

# What stands around both calls. The simplest first.
CONTEXTS = ("", "no_grad", "autocast")


@dataclass(frozen=True)
class Recipe:
    """What one try is made of; data alone, so that equal recipes make equal inputs."""

    sizes: tuple[int, ...]  # one for each SizeVariable
    kinds: tuple[str, ...]  # of values, one for each TensorPlace
    layouts: tuple[str, ...]  # one for each TensorPlace
    scalars: tuple[Any, ...]  # one for each ScalarPlace
    context: str = ""
    second_call: bool = False
    seed: int = 0

    @property
    def is_extreme(self) -> bool:
        """Tell whether overflow, flushing to zero or NaN alone may make right graphs differ."""
        return not EXTREME_KINDS.isdisjoint(self.kinds)


@dataclass(frozen=True)
class SizeVariable:
    """Dimensions that change together, and the sizes that eager took for them, ascending."""

    example: int
    options: tuple[int, ...]
    large: int | None = None  # so many that a try compares thousands of values


@dataclass(frozen=True)
class TensorPlace:
    """One tensor among the arguments."""

    example: torch.Tensor
    values: ValueRange
    sizes: tuple[int | None, ...]  # for each dimension the index of its SizeVariable

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of values that it can have, the simplest first."""
        kinds = kinds_for(self.values.dtype)
        if (self.values.least, self.values.largest) == (self.values.low, self.values.high):
            return tuple(kind for kind in kinds if kind != "accepted")
        return kinds

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that it can have, the simplest first."""
        return layouts_for(self.example.dim())


@dataclass(frozen=True)
class ScalarPlace:
    """One argument that is a bool or a number, and what it may be; the example comes first."""

    name: int | str
    options: tuple[Any, ...]


@dataclass(frozen=True)
class SearchSpace:
    """The arguments of the user, and what may be changed in them."""

    arguments: Arguments
    tensors: tuple[TensorPlace, ...]
    sizes: tuple[SizeVariable, ...] = ()
    scalars: tuple[ScalarPlace, ...] = ()
    contexts: tuple[str, ...] = field(default=CONTEXTS)

    def example(self, seed: int = 0) -> Recipe:
        """Return the recipe of other values between the ends of the user's, and nothing else changed."""
        return Recipe(
            sizes=tuple(variable.example for variable in self.sizes),
            kinds=tuple("range" if "range" in each.kinds else each.kinds[-1] for each in self.tensors),
            layouts=tuple(each.layouts[0] for each in self.tensors),
            scalars=tuple(each.options[0] for each in self.scalars),
            seed=seed,
        )

    def make(self, recipe: Recipe) -> Arguments:
        """Make the arguments of a recipe."""
        values = [*self.arguments.args, *self.arguments.kwargs.values()]
        memo: dict[int, Any] = {id(value): value for value in values if isinstance(value, torch.nn.Module)}
        for index, each in enumerate(self.tensors):
            memo[id(each.example)] = self._tensor(index, each, recipe)
        args, kwargs = copy.deepcopy((self.arguments.args, self.arguments.kwargs), memo)
        changed: list[Any] = list(args)
        for scalar, value in zip(self.scalars, recipe.scalars, strict=True):
            if isinstance(scalar.name, int):
                changed[scalar.name] = value
            else:
                kwargs[scalar.name] = value
        return Arguments(tuple(changed), kwargs)

    def _tensor(self, index: int, each: TensorPlace, recipe: Recipe) -> torch.Tensor:
        sizes = zip(each.example.shape, each.sizes, strict=True)
        shape = tuple(size if variable is None else recipe.sizes[variable] for size, variable in sizes)
        count = torch.Size(shape).numel()
        values = draw(recipe.kinds[index], each.values, count, recipe.seed * 64 + index).reshape(shape)
        with torch.no_grad():
            made = place(values.contiguous(), recipe.layouts[index], each.example)
            if made.device != each.example.device:  # with its memory as it is: .to() would close gaps
                flat = flat_view(made.untyped_storage(), made.dtype).to(each.example.device)
                made = flat.as_strided(made.shape, made.stride(), made.storage_offset())
        return made.requires_grad_(each.example.requires_grad)


@contextlib.contextmanager
def context_of(recipe: Recipe, device: str) -> Iterator[None]:
    """Put around both calls what a recipe says: no_grad, or autocast in bfloat16."""
    if recipe.context == "no_grad":
        with torch.no_grad():
            yield
    elif recipe.context == "autocast":
        with torch.autocast(device, torch.bfloat16):
            yield
    else:
        yield
