"""Make the input that was found smaller: fewer rows, more zeros, rounder numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.search.recipe import SearchSpace

# Elements that differ from zero which are made rounder one by one.
_FEW = 6
_SMALLEST_BLOCK_SHARE = 64

IsWrong = Callable[[Arguments], bool]


class Shrinker:
    """Makes arguments smaller as long as the graph is wrong for them."""

    def __init__(self, space: SearchSpace, arguments: Arguments, is_wrong: IsWrong) -> None:
        """Take the arguments of a recipe in the space; `is_wrong` may answer no to save time."""
        self._is_wrong = is_wrong
        drawn = {id(each.example): index for index, each in enumerate(space.tensors)}
        self._sizes = [each.sizes for each in space.tensors]
        self._variables = range(len(space.sizes))
        # Which of the arguments' tensors was drawn for which place of the space.
        self._places = [drawn.get(id(tensor)) for _, tensor in space.arguments.tensors()]
        self.arguments = arguments

    def run(self) -> Arguments:
        """Return the smallest arguments that were found."""
        for variable in self._variables:
            self._crop(variable)
        for index, place in enumerate(self._places):
            if place is not None and self._places.index(place) == index:
                self._clear(index)
                self._round(index)
        for variable in self._variables:
            self._crop(variable)
        return self.arguments

    def _takes(self, candidate: Arguments | None) -> bool:
        if candidate is None or not self._is_wrong(candidate):
            return False
        self.arguments = candidate
        return True

    def _crop(self, variable: int) -> None:
        """Keep one half of the dimensions of a variable, again and again."""
        while (size := self._size_of(variable)) > 1:
            half = size - size // 2
            if not any(self._takes(self._cropped(variable, start, half)) for start in (0, size - half)):
                return

    def _size_of(self, variable: int) -> int:
        for tensor, place in zip(self._tensors(), self._places, strict=True):
            if place is not None and variable in self._sizes[place]:
                return int(tensor.shape[self._sizes[place].index(variable)])
        return 0

    def _tensors(self) -> list[torch.Tensor]:
        return [tensor for _, tensor in self.arguments.tensors()]

    def _cropped(self, variable: int, start: int, size: int) -> Arguments:
        memo: dict[int, Any] = {}
        for tensor, place in zip(self._tensors(), self._places, strict=True):
            cropped = tensor.detach()
            for dim, of_dim in enumerate(self._sizes[place] if place is not None else ()):
                if of_dim == variable:
                    cropped = cropped.narrow(dim, start, size)
            memo[id(tensor)] = _copy(cropped).requires_grad_(tensor.requires_grad)
        args, kwargs = copy.deepcopy((self.arguments.args, self.arguments.kwargs), memo)
        return Arguments(args, kwargs)

    def _clear(self, index: int) -> None:
        """Write zeros: everywhere, into halves, into quarters and so on."""
        count = self._tensors()[index].numel()
        block = count
        while block:
            for start in range(0, count, block):
                self._takes(self._with_values(index, _zeros_from(start, start + block)))
            block = block // 2 if block > 1 and block * _SMALLEST_BLOCK_SHARE > count else 0

    def _round(self, index: int) -> None:
        """Write rounder numbers in place of the elements that are left."""
        flat = self._tensors()[index].detach().reshape(-1)
        left = flat.nonzero().reshape(-1).tolist()
        if len(left) > _FEW:
            return
        for place in left:
            for number in _rounder(flat[place].item()):
                if number == flat[place].item() or self._takes(self._with_values(index, _number_at(place, number))):
                    break

    def _with_values(self, index: int, write: Callable[[torch.Tensor], torch.Tensor]) -> Arguments | None:
        """Return a copy in which one tensor has other values; None if they are the same, or share memory."""
        copied = copy_arguments(self.arguments).arguments
        tensor = copied.tensors()[index][1].detach()
        values = write(tensor.reshape(-1).clone()).reshape(tensor.shape)
        if _same_bits(values, tensor):
            return None
        try:
            tensor.copy_(values)
        except RuntimeError:  # expanded: one element in many places
            return None
        return copied


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor without what its storage holds besides; elements that are repeated stay so, and gaps."""
    copied = tensor.clone(memory_format=torch.preserve_format)
    if copied.stride() == tensor.stride():
        return copied
    # Gaps and repeated elements: the storage from the first element to the last.
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((steps + 1,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    equal = (first == second) | ((first != first) & (second != second))
    if first.dtype.is_floating_point:
        equal &= first.signbit() == second.signbit()
    return bool(equal.all())


def _zeros_from(start: int, end: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def write(flat: torch.Tensor) -> torch.Tensor:
        flat[start:end] = 0
        return flat

    return write


def _number_at(place: int, number: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def write(flat: torch.Tensor) -> torch.Tensor:
        flat[place] = number
        return flat

    return write


def _rounder(number: Any) -> Iterator[Any]:
    """Yield simpler numbers than one, the simplest first."""
    if isinstance(number, (bool, complex)) or number != number:
        return
    sign = -1 if number < 0 else 1
    yield sign
    if isinstance(number, int):
        return
    for digits in (1, 2, 3):
        yield float(f"{number:.{digits}g}")
