"""Values for the inputs of a search: ordinary ones, and those where graphs go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

Number = int | float


@dataclass(frozen=True)
class ValueRange:
    """What one tensor may hold: the ends of the user's example, and the ends of what the model accepts."""

    dtype: torch.dtype
    low: Number
    high: Number
    least: int = 0  # of integers: what eager accepts beyond the example
    largest: int = 0

    @property
    def is_float(self) -> bool:
        """Tell whether these are real floating-point numbers."""
        return self.dtype.is_floating_point


# Kinds of floats, the simplest first: a search shrinks towards the front.
FLOAT_KINDS = (
    *("zeros", "ones", "range", "normal", "integers", "negative", "ties", "constant", "wide", "tens", "minus_zero"),
    *("nan", "infinite", "huge", "mixed", "subnormal"),
)
INTEGER_KINDS = ("zeros", "ones", "range", "accepted", "ties", "constant", "ends")
BOOL_KINDS = ("zeros", "ones", "range")
# Where rounding, overflow and flushing to zero alone make results differ.
EXTREME_KINDS = frozenset({"huge", "mixed", "subnormal", "infinite", "nan"})
# Many different values each time: these find what is wrong for one value in a thousand.
VARIED_KINDS = ("range", "normal", "wide", "tens", "accepted")


def kinds_for(dtype: torch.dtype) -> tuple[str, ...]:
    """Return the kinds of values for a dtype."""
    if dtype.is_floating_point:
        return FLOAT_KINDS
    if dtype.is_complex:
        return ("zeros", "ones", "normal")
    return BOOL_KINDS if dtype is torch.bool else INTEGER_KINDS


def draw(kind: str, values: ValueRange, count: int, seed: int) -> torch.Tensor:
    """Return `count` values of a kind, one of kinds_for(dtype); the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    if values.dtype.is_complex:
        parts = [draw(kind, ValueRange(torch.float64, -1.0, 1.0), count, seed + part) for part in (0, 1)]
        return torch.complex(*parts).to(values.dtype)
    if values.dtype is torch.bool:
        constant = {"zeros": 0, "ones": 1}.get(kind)
        drawn = torch.randint(0, 2, (count,), generator=generator)
        return (drawn if constant is None else torch.full((count,), constant)).bool()
    if not values.is_float:
        return _integers(kind, values, count, generator).to(values.dtype)
    return _FLOATS[kind](values, count, generator).to(values.dtype)


def _integers(kind: str, values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    low, high = int(values.low), int(values.high)

    def between(first: int, last: int) -> torch.Tensor:
        if last - first >= 2**62:  # more than randint() takes
            return torch.randint(-(2**62), 2**62, (count,), generator=generator).clamp(first, last)
        return first + torch.randint(0, last - first + 1, (count,), generator=generator)

    def among(choices: list[int]) -> torch.Tensor:
        kept = sorted({min(max(choice, values.least), values.largest) for choice in choices})
        return torch.tensor(kept)[torch.randint(0, len(kept), (count,), generator=generator)]

    made: dict[str, Callable[[], torch.Tensor]] = {
        "zeros": lambda: among([0]),
        "ones": lambda: among([1]),
        "range": lambda: between(low, high),
        "accepted": lambda: between(values.least, values.largest),
        "ties": lambda: among([low, low + 1]),
        "constant": lambda: between(low, high)[:1].expand(count) if count else between(low, high),
        "ends": lambda: among([values.least, values.least + 1, -1, 0, 1, values.largest - 1, values.largest]),
    }
    return made[kind]()


def _uniform(count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(count, dtype=torch.float64, generator=generator)


def _normal(count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, dtype=torch.float64, generator=generator)


def _in_range(values: ValueRange, count: int, generator: torch.Generator) -> torch.Tensor:
    return values.low + (values.high - values.low) * _uniform(count, generator)


def _over_magnitudes(first: float, last: float, count: int, generator: torch.Generator) -> torch.Tensor:
    """Draw values of both signs whose magnitudes lie between two powers of ten."""
    magnitudes = torch.pow(10.0, first + (last - first) * _uniform(count, generator))
    return torch.where(_uniform(count, generator) < 0.5, -magnitudes, magnitudes)


def _one_in_eight(special: list[float], count: int, generator: torch.Generator) -> torch.Tensor:
    """Put special values at the first place and at every eighth or so of ordinary ones."""
    drawn, places = _normal(count, generator), _uniform(count, generator) < 0.125
    places[:1] = True
    chosen = torch.tensor(special, dtype=torch.float64)[torch.randint(0, len(special), (count,), generator=generator)]
    return torch.where(places, chosen, drawn)


def _largest_power(dtype: torch.dtype) -> float:
    # Nothing wider judges results in double precision, so that its own ends would only raise false alarms.
    return 50.0 if dtype is torch.float64 else math.log10(torch.finfo(dtype).max) - 0.01


def _least_powers(dtype: torch.dtype) -> tuple[float, float]:
    if dtype is torch.float64:
        return -60.0, -50.0
    normal = math.log10(torch.finfo(dtype).tiny)
    return normal + math.log10(torch.finfo(dtype).eps), normal + 0.5


_FLOATS: dict[str, Callable[[ValueRange, int, torch.Generator], torch.Tensor]] = {
    "zeros": lambda values, count, generator: torch.zeros(count),
    "ones": lambda values, count, generator: torch.ones(count),
    "range": _in_range,
    "normal": lambda values, count, generator: _normal(count, generator),
    "integers": lambda values, count, generator: torch.randint(-3, 4, (count,), generator=generator),
    "negative": lambda values, count, generator: -_normal(count, generator).abs() - 0.1,
    "ties": lambda values, count, generator: torch.randint(0, 2, (count,), generator=generator),
    "constant": lambda values, count, generator: _normal(1, generator).expand(count),
    "wide": lambda values, count, generator: _over_magnitudes(-3, 3, count, generator),
    "tens": lambda values, count, generator: 10 * _normal(count, generator),
    "minus_zero": lambda values, count, generator: _one_in_eight([-0.0, 0.0], count, generator),
    "nan": lambda values, count, generator: _one_in_eight([math.nan], count, generator),
    "infinite": lambda values, count, generator: _one_in_eight([math.inf, -math.inf], count, generator),
    "huge": lambda values, count, generator: _over_magnitudes(
        _largest_power(values.dtype) / 3, _largest_power(values.dtype), count, generator
    ),
    "mixed": lambda values, count, generator: _over_magnitudes(
        _least_powers(values.dtype)[0] / 2, _largest_power(values.dtype) / 2, count, generator
    ),
    "subnormal": lambda values, count, generator: _over_magnitudes(*_least_powers(values.dtype), count, generator),
}
