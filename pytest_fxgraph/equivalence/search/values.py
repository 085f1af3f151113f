"""The values of one drawn tensor: a short pattern of chosen numbers, or random numbers of one distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

Number = int | float
# A str names a distribution. A tuple holds places: the first in special_values(), the others in ordinary_values().
Fill = str | tuple[int, ...]

PATTERN = "pattern"
# Seven numbers repeat along the tensor. The length shares no factor with common sizes, so that rows differ.
PATTERN_LENGTH = 7
# With these distributions, rounding, overflow and flushing to zero alone make results differ.
_EXTREME = frozenset({"huge", "tiny"})
INDEX_BITS = 12  # in Recipe.kept
EITHER = 2  # in Recipe.kept: an index may have either bit


class ValueRange(NamedTuple):
    """The limits of one tensor's values: of the user's example, and of the integers that the model accepts."""

    dtype: torch.dtype
    low: Number
    high: Number
    least: int = 0  # integers alone
    largest: int = 0
    is_finite: bool = False  # no NaN and no infinity in patterns

    @property
    def is_float(self) -> bool:
        """Return whether the values are real floating-point numbers."""
        return self.dtype.is_floating_point

    @property
    def kinds(self) -> tuple[str, ...]:
        """List the kinds of values that suit the dtype, the simplest kind first."""
        if self.is_float:
            return (PATTERN, *_FLOATS)
        if self.dtype.is_complex:
            return (PATTERN, "normal")
        is_wider = (self.least, self.largest) != (self.low, self.high)
        return (PATTERN, "range", "accepted") if is_wider and self.dtype is not torch.bool else (PATTERN, "range")

    def ordinary_values(self) -> list[Number]:
        """List the numbers for all places of a pattern but the first, the simplest number first."""
        if self.is_float or self.dtype.is_complex:
            return [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0]
        low, high = int(self.low), int(self.high)
        return [0, 1] if self.dtype is torch.bool else self._accepted(0, 1, -1, low, low + 1, high)

    def special_values(self) -> list[Number]:
        """List the numbers for the first place of a pattern.

        hypothesis shrinks a place by setting bits to 0. Places of floats are numbered so that a number shrinks to a
        simpler number of the same sign: -inf at 6 (110) shrinks to -1 at 2 (010).
        """
        if self.is_float:
            huge, tiny = _ends(self.dtype)
            nan, inf = (0.5, 3.0) if self.is_finite else (math.nan, math.inf)
            return [*(0.0, 1.0, -1.0, 2.0, nan, inf, -inf, nan), *(-0.0, huge, -huge, nan, 0.5, tiny, -tiny, -0.0)]
        if self.dtype.is_complex or self.dtype is torch.bool:
            return self.ordinary_values()
        return self._accepted(0, 1, -1, self.least, self.least + 1, self.largest - 1, self.largest)

    def is_extreme(self, fill: Fill) -> bool:
        """Return whether overflow, flushing to zero or NaN alone may make right graphs differ for a fill."""
        if isinstance(fill, str):
            return fill in _EXTREME
        number = self.special_values()[fill[0]]
        return self.is_float and not (number == 0 or 1e-3 < abs(number) < 1e3)

    def _accepted(self, *wanted: int) -> list[Number]:
        return list(dict.fromkeys(min(max(number, self.least), self.largest) for number in wanted))


def filled(fill: Fill, values: ValueRange, count: int, seed: int, kept: tuple[int, ...] = ()) -> torch.Tensor:
    """Return `count` values in one dimension; equal arguments give equal values.

    `kept` limits random values to the elements with these bits in their index, the lowest bit first. The first kept
    element comes first and all other elements are zero, so that a smaller tensor can hold the same element.
    """
    if not isinstance(fill, str):
        special, ordinary = values.special_values(), values.ordinary_values()
        chosen = [special[fill[0]], *(ordinary[place] for place in fill[1:])]
        wide = torch.tensor(chosen, dtype=torch.float64 if values.is_float else None)
        return wide.repeat(count // PATTERN_LENGTH + 1)[:count].to(values.dtype)
    generator = torch.Generator().manual_seed(seed)
    length = max(count, 2**INDEX_BITS)
    if values.is_float:
        drawn = _FLOATS[fill](values, length, generator)
    elif values.dtype.is_complex:
        drawn = torch.randn(length, dtype=torch.complex128, generator=generator)
    else:
        ends = (values.least, values.largest) if fill == "accepted" else (int(values.low), int(values.high))
        drawn = _whole(*ends, length, generator)
    if any(bit != EITHER for bit in kept):
        index = torch.arange(length)
        is_kept = torch.ones(length, dtype=torch.bool)
        for place, bit in enumerate(kept):
            is_kept &= (bit == EITHER) | ((index >> place & 1) == bit)
        drawn[~is_kept] = 0 if values.dtype.is_complex or values.is_float else values._accepted(0)[0]
        drawn = drawn.roll(-int(is_kept.nonzero()[0]))
    return drawn[:count].to(values.dtype)


def _whole(least: int, largest: int, count: int, generator: torch.Generator) -> torch.Tensor:
    if largest - least >= 2**62:  # more than randint() takes
        return torch.randint(-(2**62), 2**62, (count,), generator=generator).clamp(least, largest)
    return least + torch.randint(0, largest - least + 1, (count,), generator=generator)


def _ends(dtype: torch.dtype) -> tuple[float, float]:
    """Return a huge and a tiny number."""
    # No wider dtype judges results in double precision. The ends of float64 itself would raise false alarms.
    return (1e50, 1e-60) if dtype is torch.float64 else (torch.finfo(dtype).max, torch.finfo(dtype).tiny / 4)


def _normal(values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, dtype=torch.float64, generator=generator)


def _in_range(values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    return values.low + (values.high - values.low) * torch.rand(count, dtype=torch.float64, generator=generator)


def _over_magnitudes(first: float, last: float, count: int, generator: torch.Generator) -> torch.Tensor:
    """Draw values of both signs with magnitudes between two powers of ten."""
    powers, signs = torch.rand((2, count), dtype=torch.float64, generator=generator)
    magnitudes = torch.pow(10.0, first + (last - first) * powers)
    return magnitudes.where(signs < 0.5, -magnitudes)


def _huge(values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    largest = math.log10(_ends(values.dtype)[0]) - 0.01
    return _over_magnitudes(largest / 3, largest, count, generator)


def _tiny(values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    least = math.log10(_ends(values.dtype)[1])
    return _over_magnitudes(least, least + 3, count, generator)


_FLOATS: dict[str, Callable[[ValueRange, int, torch.Generator], torch.Tensor]] = {
    "range": _in_range,
    "normal": _normal,
    "wide": lambda values, count, generator: _over_magnitudes(-3, 3, count, generator),
    "huge": _huge,
    "tiny": _tiny,
}
