"""Equality of constants in graphs."""

from __future__ import annotations

import math
from typing import Any


def constants_equal(expected: Any, obtained: Any) -> bool:
    """Return whether two constants have one type and one value, as a program can distinguish them.

    NaN equals NaN, 0.0 differs from -0.0, and 1 differs from True and from 1.0; inside containers too.
    """
    if type(expected) is not type(obtained):
        return False
    if isinstance(expected, float):
        return _same_float(expected, obtained)
    if isinstance(expected, complex):
        return _same_float(expected.real, obtained.real) and _same_float(expected.imag, obtained.imag)
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(obtained) and all(map(constants_equal, expected, obtained))
    if isinstance(expected, dict):
        return expected.keys() == obtained.keys() and all(
            constants_equal(value, obtained[key]) for key, value in expected.items()
        )
    if isinstance(expected, slice):
        return constants_equal(slice_parts(expected), slice_parts(obtained))
    return expected is obtained or _equal(expected, obtained)


def slice_parts(value: slice) -> tuple[Any, Any, Any]:
    """Return start, stop and step of a slice."""
    return value.start, value.stop, value.step


def _same_float(expected: float, obtained: float) -> bool:
    if math.isnan(expected):
        return math.isnan(obtained)
    return expected == obtained and math.copysign(1.0, expected) == math.copysign(1.0, obtained)


def _equal(expected: Any, obtained: Any) -> bool:
    try:
        return bool(expected == obtained)
    except Exception:  # the truth of a compared tensor may be undefined
        return False
