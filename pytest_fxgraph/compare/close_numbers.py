"""Floats that differ by rounding alone, in the texts of arguments and of constant tensors.

Two numbers are close if they differ by at most half a unit of the fourth significant digit. If a text holds rounded
digits only, as statistics do, a whole unit is close. In arguments, whole numbers and truths are never close; nor are
0.0 and -0.0, NaNs with other bits, or an infinity and another number. In constant tensors, all zeros are equal, all
NaNs are equal, and numbers are close if they differ by at most a millionth of the tensor's largest number.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_fxgraph.document.literals import QUOTED, without_references

_DIGITS = 4
_OF_THE_LARGEST = 1e-6
_NUMBER = r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan(?:\(0x[0-9a-f]+\))?)"
_FLOAT = re.compile(rf"{QUOTED}|(?<![\w.%])({_NUMBER})(?![\w.])", re.DOTALL)
_DIGEST = re.compile(r"sha256=[0-9a-f]{64}(?:, )?")
_SKETCH = re.compile(rf", sketch=({_NUMBER})")  # in texts of constants="close" alone
_SKETCHES_APART = 0.0021  # two sketches have three decimals, and may both be rounded
_ROUNDED = re.compile(r"close\((.*)\)", re.DOTALL)
_TENSOR = re.compile(r"(?:tensor|parameter)\(((?:b?float|complex)\w*\[[^]]*\]), (.*)\)\Z", re.DOTALL)
_FORMATS = {"float64": ("d", "q", 0), "float32": ("f", "i", 0), "float16": ("e", "h", 0), "bfloat16": ("f", "i", 16)}
_PARTS_OF = {"complex128": "float64", "complex64": "float32"}
_CURE = 'constants="close" accepts that'


def close_argument(expected: str, obtained: str) -> str:
    """Return an obtained argument with the golden's floats, if the argument differs only by close floats."""
    if expected == obtained:
        return obtained
    contents = _contents(expected, obtained)
    if contents is not None:
        return expected if are_close_contents(*contents) else obtained
    if without_floats(without_references(expected)) != without_floats(without_references(obtained)):
        return obtained
    floats = _floats(expected)
    is_close = all(map(_is_close_argument, floats, _floats(obtained)))
    return _with_floats(obtained, floats) if is_close else obtained


def _contents(expected: str, obtained: str) -> tuple[str, str, str] | None:
    """Return the contents of two tensors and their dtype and shape; None for other arguments."""
    tensor, other = _TENSOR.match(expected), _TENSOR.match(obtained)
    return (tensor[2], other[2], tensor[1]) if tensor and other and tensor[1] == other[1] else None


def are_close_contents(expected: str, obtained: str, value: str) -> bool:
    """Return whether two texts of a tensor's content are equal up to rounding; `value` is its dtype and shape."""
    if expected == obtained:
        return True
    content = _Content.of(expected, obtained, value)
    return content is not None and content.is_close()


def without_floats(text: str) -> str:
    """Return a text with marks in place of its floats, and without digests of constants."""
    return _with_floats(_ROUNDED.sub(r"\1", _DIGEST.sub("", _SKETCH.sub("", text))), None)


def argument_distance(expected: str, obtained: str) -> str:
    """Describe the distance of an argument and the option that accepts it; "" for more than rounding."""
    contents = _contents(expected, obtained)
    if contents is not None:
        return content_distance(*contents)
    if close_argument(expected, obtained) == obtained:
        return ""
    floats, obtained_floats = _floats(expected), _floats(obtained)
    most = max(map(_distance, map(float, floats), map(float, obtained_floats), ["float64"] * len(floats)))
    return f"{most}; {_CURE}"


def content_distance(expected: str, obtained: str, value: str) -> str:
    """Describe the distance of a constant and the option that accepts it; "" for more than rounding."""
    content = _Content.of(expected, obtained, value)
    return f"{content.distance()}; {_CURE}" if content is not None and content.is_close() else ""


def difference_in_words(expected: str, obtained: str, value: str) -> str:
    """Describe the difference of two contents that are not close; "" for other kinds of numbers, NaN or infinity."""
    content = _Content.of(expected, obtained, value)
    if content is None:
        return "differ in their order" if _SKETCH.search(expected) and _SKETCH.search(obtained) else ""
    pairs = [pair for pair in zip(content.expected, content.obtained, strict=True) if not _is_same(*pair)]
    distances = [abs(one - other) for one, other in pairs]
    if not all(map(math.isfinite, distances)):
        return ""
    where = " in min, max, mean or norm" if content.has_statistics else ""
    return f"differ by up to {max(distances, default=0.0):.3g}{where}"


class _Distance(NamedTuple):
    """The distance of two numbers; the relative distance counts if their format is unknown (ulps is -1)."""

    relative: float
    ulps: int

    def __str__(self) -> str:
        if self.ulps < 0:
            return f"apart by {self.relative:.1e} of its size"
        return f"{self.ulps} ulp{'s' if self.ulps != 1 else ''} apart"


class _Content(NamedTuple):
    """The numbers of two texts that are otherwise equal."""

    expected: Sequence[float]
    obtained: Sequence[float]
    dtype: str
    is_rounded: bool
    has_statistics: bool
    is_partial: bool  # one text holds fewer digits, because it was written with another `constants=`

    @classmethod
    def of(cls, expected: str, obtained: str, value: str) -> _Content | None:
        """Return the numbers of two texts of floats; None if the texts differ by more than numbers."""
        dtype = value.partition("[")[0]
        if not dtype.startswith(("float", "bfloat", "complex")):
            return None
        sketches = [float(found[1]) for found in map(_SKETCH.search, (expected, obtained)) if found]
        if len(sketches) == 2 and abs(sketches[0] - sketches[1]) > _SKETCHES_APART:
            return None
        expected, obtained = _SKETCH.sub("", expected), _SKETCH.sub("", obtained)
        texts = [_ROUNDED.sub(r"\1", _DIGEST.sub("", text)) for text in (expected, obtained)]
        if without_floats(texts[0]) != without_floats(texts[1]):
            return None
        has_statistics = "norm=" in texts[0]
        is_partial = ("close(" in expected) != ("close(" in obtained)
        is_rounded = has_statistics or "close(" in expected + obtained
        numbers = [[_number(text) for text in _floats(each)] for each in texts]
        return cls(numbers[0], numbers[1], _PARTS_OF.get(dtype, dtype), is_rounded, has_statistics, is_partial)

    def is_close(self) -> bool:
        finite = [abs(number) for number in (*self.expected, *self.obtained) if math.isfinite(number)]
        # The norm, the fourth statistic, is larger than the numbers of the tensor; the mean is between the first two.
        largest = max(finite[:2] if self.has_statistics else finite, default=0.0)
        pairs = zip(self.expected, self.obtained, strict=True)
        return all(
            abs(one - other) <= largest * _OF_THE_LARGEST or are_close(one, other, self.is_rounded)
            for one, other in pairs
        )

    def distance(self) -> str:
        """Describe the largest distance of the numbers."""
        pairs = [pair for pair in zip(self.expected, self.obtained, strict=True) if not _is_same(*pair)]
        if self.is_partial:
            return 'the same as far as both hold them: one was written at constants="close"'
        if self.has_statistics:
            part = max([_relative(*pair) for pair in pairs], default=0.0)
            return f"differ; relative distance of min, max, mean and norm: {part:.1e}"
        if not pairs:
            return "the sign of zero differs, or what a NaN holds"
        most = max([_distance(*pair, self.dtype) for pair in pairs])
        return f"at most {most}, in {len(pairs)} of {len(self.expected)} values"


def are_close(expected: float, obtained: float, is_rounded: bool = False) -> bool:
    """Return whether two numbers are equal or close; `is_rounded` if only the first digits of one are known."""
    if _is_same(expected, obtained):
        return True
    if not (math.isfinite(expected) and math.isfinite(obtained)):
        return False
    largest = max(abs(expected), abs(obtained))
    unit = 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS)
    # A rounded number has decimal digits, and the float read from these digits is not exact.
    return abs(expected - obtained) <= unit * (1.001 if is_rounded else 0.5)


def _is_close_argument(expected: str, obtained: str) -> bool:
    if expected == obtained:
        return True
    numbers = _number(expected), _number(obtained)
    return not any(math.isnan(number) or number == 0 for number in numbers) and are_close(*numbers)


def _is_same(expected: float, obtained: float) -> bool:
    return expected == obtained or (math.isnan(expected) and math.isnan(obtained))


def _distance(expected: float, obtained: float, dtype: str) -> _Distance:
    relative = _relative(expected, obtained)
    if dtype not in _FORMATS:
        return _Distance(relative, -1)
    return _Distance(relative, abs(_ordered_bits(expected, dtype) - _ordered_bits(obtained, dtype)))


def _relative(expected: float, obtained: float) -> float:
    largest = max(abs(expected), abs(obtained))
    return abs(expected - obtained) / largest if largest and math.isfinite(largest) else 0.0


def _ordered_bits(number: float, dtype: str) -> int:
    """Return the place of a float among the floats of its format, counted from zero up and down."""
    packed, whole, dropped = _FORMATS[dtype]
    bits: int = struct.unpack(f"<{whole}", struct.pack(f"<{packed}", number))[0]
    size = 8 * struct.calcsize(whole)
    magnitude = (bits & ~(-1 << (size - 1))) >> dropped
    return -magnitude if bits < 0 else magnitude


def _number(text: str) -> float:
    return float(text.partition("(")[0])


def _floats(text: str) -> list[str]:
    return [found for found in _FLOAT.findall(text) if found]


def _with_floats(text: str, floats: Sequence[str] | None) -> str:
    """Replace the floats of a text; None puts a mark at each place."""
    left: Iterator[str] = iter(floats or ())

    def other(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return "~" if floats is None else next(left)

    return _FLOAT.sub(other, text)
