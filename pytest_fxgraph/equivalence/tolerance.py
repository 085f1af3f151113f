"""How far two values may lie apart and still count as equal."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real

import torch

from fxcore.state.storage import wrapped_tensors
from pytest_fxgraph.arguments import NumberByPath
from pytest_fxgraph.errors import ChoiceError

# The beginnings of the paths of results.
OUTPUT = "output"
SECOND_CALL = "output of a second call"
AFTER_SECOND_CALL = " after a second call"  # the end of the paths of state
_LATER_CALL = re.compile(r"\Aoutput of a \w+ call")
LOOSE = 0.05  # no rounding of half precision explains a larger relative error

# rtol and atol as documented for torch.testing.assert_close; dtypes that are missing must be equal exactly.
_DEFAULTS: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
_AS_FLOAT32 = (torch.complex64, torch.quint8, torch.quint2x4, torch.quint4x2, torch.qint8, torch.qint32)
_DEFAULTS |= dict.fromkeys(_AS_FLOAT32, _DEFAULTS[torch.float32])


# A gradient below this part of the largest gradient of its kind is rounding alone: a bias before batch norm has one.
_ROUNDING_OF_GRADIENTS = 1e-3


@dataclass(frozen=True)
class Tolerance:
    """Two values agree where |obtained - expected| <= atol + rtol * |expected|.

    Two tensors agree where all their elements do, and where SQNR and cosine, if given, are reached. With an infinite
    `atol` an element only has to be finite where the expected one is, and otherwise the same.
    """

    rtol: float
    atol: float
    sqnr: float | None = None  # signal to quantization noise: decibels, at least
    cosine: float | None = None  # at least

    @property
    def is_exact(self) -> bool:
        """Return whether only equal values agree."""
        return self.rtol == 0 and self.atol == 0

    @property
    def has_thresholds(self) -> bool:
        """Return whether a figure of the whole tensor counts, too."""
        return self.sqnr is not None or self.cosine is not None

    def __str__(self) -> str:
        if self.is_exact:
            return "exact equality"
        by_figures = self.has_thresholds and not math.isfinite(self.atol)
        parts = [] if by_figures else [f"rtol={self.rtol:g}, atol={self.atol:.3g}"]
        parts += [f"an SQNR of at least {self.sqnr:g} dB"] if self.sqnr is not None else []
        parts += [f"a cosine of at least {self.cosine:g}"] if self.cosine is not None else []
        return ", ".join(parts)


@dataclass(frozen=True)
class ToleranceRule:
    """The tolerances of the caller; None follows the compared tensor.

    Without `rtol` the dtype decides, as in torch.testing. Without `atol` its default is multiplied by the largest
    finite magnitude of the expected tensor if that is below 1, so that an output of 1e-9 is compared as closely as an
    output of 1. A tensor of zeros must be all zeros. An `atol` of the caller is taken as it is. With `sqnr` or
    `cosine`, floating tensors have to reach these thresholds, and elements are compared by the caller's tolerances
    alone. Raises ChoiceError for a tolerance below 0, and for thresholds that zeros would reach.
    """

    # Numbers by path have globs as keys, with * as the only wildcard; the first glob that matches counts.
    rtol: NumberByPath | None = None
    atol: NumberByPath | None = None
    sqnr: float | None = None
    cosine: float | None = None
    # The largest magnitude of all gradients of a kind, if this is the rule for one of them.
    of_gradients: float | None = None
    # The factor of a default atol, in place of the largest magnitude of the tensor.
    scale: float | None = None

    def __post_init__(self) -> None:
        for name, given in (("rtol", self.rtol), ("atol", self.atol)):
            numbers = {f" of {glob!r}": value for glob, value in _by_path(given).items()}
            for place, value in (numbers if isinstance(given, Mapping) else {"": given}).items():
                if value is not None and not (isinstance(value, Real) and value >= 0):
                    raise ChoiceError(f"{name}{place} must be a number of at least 0, got {value!r}")
        if self.sqnr is not None and not (isinstance(self.sqnr, Real) and 0 < self.sqnr < math.inf):
            raise ChoiceError(f"sqnr must be a number of decibels above 0, which zeros reach, got {self.sqnr!r}")
        if self.cosine is not None and not (isinstance(self.cosine, Real) and 0 < self.cosine < 1):
            raise ChoiceError(f"cosine must be a number between 0 and 1, got {self.cosine!r}")

    def for_path(self, path: str) -> ToleranceRule:
        """Return the rule for a path."""
        if not _by_path(self.rtol) and not _by_path(self.atol):
            return self
        return replace(self, rtol=_number_at(self.rtol, path), atol=_number_at(self.atol, path))

    def globs_without_match(self, paths: Collection[str]) -> list[str]:
        """List the globs that match no path."""
        globs = {**_by_path(self.rtol), **_by_path(self.atol)}
        return [glob for glob in globs if not any(_matches(glob, path) for path in paths)]

    def for_tensor(self, expected: torch.Tensor, dtype: torch.dtype | None = None) -> Tolerance:
        """Return the tolerance for an expected tensor; integers and bools are exact unless the caller set one.

        `dtype` decides instead of the tensor's own, where these are the values of a quantized tensor.
        """
        dtype = dtype or expected.dtype
        if (self.sqnr is not None or self.cosine is not None) and dtype in _DEFAULTS:
            return self._thresholds(expected, dtype)
        if self.atol is not None:
            scale = 1.0
        elif self.scale is not None:
            scale = self.scale
        elif self.of_gradients is not None:
            scale = min(1.0, 100 * self.of_gradients)
        else:
            scale = min(1.0, largest_magnitude([expected]))
        return self._scaled(dtype, scale)

    def _thresholds(self, expected: torch.Tensor, dtype: torch.dtype) -> Tolerance:
        if self.of_gradients is not None:
            rounding = _ROUNDING_OF_GRADIENTS * self.of_gradients
            if largest_magnitude([expected]) <= rounding:
                return Tolerance(0.0, 2 * rounding)
        if self.rtol is None and self.atol is None:
            return Tolerance(0.0, math.inf, self.sqnr, self.cosine)
        return Tolerance(_number_at(self.rtol) or 0.0, _number_at(self.atol) or 0.0, self.sqnr, self.cosine)

    def for_number(self, expected: complex) -> Tolerance:
        """Return the tolerance for a Python number, with the defaults of float64."""
        return self._scaled(torch.float64, min(1.0, abs(expected)))

    @property
    def is_default(self) -> bool:
        """Return whether dtype and magnitude decide about small errors, and not the caller."""
        return self.atol is None and self.sqnr is None and self.cosine is None

    def grown(self, expected: torch.Tensor) -> Tolerance | None:
        """Return the tolerance for rounding in large values; None if it is the ordinary tolerance."""
        if not self.is_default:
            return None
        largest = largest_magnitude([expected]) if self.of_gradients is None else self.of_gradients
        return self._scaled(expected.dtype, largest) if 1 < largest < math.inf else None

    def for_gradients(self, gradients: Iterable[torch.Tensor]) -> ToleranceRule:
        """Return the rule for gradients of one kind, of inputs or of parameters.

        All gradients share the largest magnitude, because some gradients are rounding alone: the gradient of a bias
        before batch norm is one. If the largest magnitude is below 0.01, the default atol is a thousandth of it (in
        float32).
        """
        return replace(self, of_gradients=largest_magnitude(gradients))

    def _scaled(self, dtype: torch.dtype, scale: float) -> Tolerance:
        default_rtol, default_atol = _DEFAULTS.get(dtype, (0.0, 0.0))
        rtol, atol = _number_at(self.rtol), _number_at(self.atol)
        return Tolerance(default_rtol if rtol is None else rtol, default_atol * scale if atol is None else atol)


def nearest(argument: NumberByPath | None, default: NumberByPath | None) -> NumberByPath | None:
    """Return the tolerance of a call in a test with a default; paths that the call leaves out follow the default."""
    if argument is None:
        return default
    if not isinstance(argument, Mapping) or default is None:
        return argument
    rest = default if isinstance(default, Mapping) else {"*": default}
    return {**argument, **{glob: value for glob, value in rest.items() if glob not in argument}}


def _by_path(given: NumberByPath | None) -> Mapping[str, float]:
    return given if isinstance(given, Mapping) else {}


def _number_at(given: NumberByPath | None, path: str = "") -> float | None:
    """Return the number for a path; without a path, None for numbers by path."""
    if isinstance(given, Mapping):
        return next((value for glob, value in given.items() if path and _matches(glob, path)), None)
    return given


def _matches(glob: str, path: str) -> bool:
    # The brackets of a path stand for themselves. A later call returns at the same paths as the first.
    path = _LATER_CALL.sub(OUTPUT, path)
    return re.fullmatch(".*".join(map(re.escape, glob.split("*"))), path) is not None


def largest_magnitude(tensors: Iterable[torch.Tensor]) -> float:
    """Return the largest finite magnitude in some tensors, or 0."""
    return max((_largest_magnitude(tensor.detach()) for tensor in tensors), default=0.0)


def _largest_magnitude(tensor: torch.Tensor) -> float:
    parts = tensor.unbind() if tensor.is_nested else wrapped_tensors(tensor).values()
    if parts:
        return largest_magnitude(parts)
    if not tensor.numel() or tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    # Narrow types are widened: some know no comparison, and the magnitude of a complex number may overflow.
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else widened(tensor)
    largest = float(torch.linalg.vector_norm(wide, math.inf))
    if math.isfinite(largest):
        return largest
    finite = wide[wide.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in double precision."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
