"""The error of an obtained tensor: how many elements differ, by how much, where."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pytest_fxgraph.equivalence.tolerance import Tolerance, widened
from pytest_fxgraph.report.numeric_failure import ErrorHistogram

_MOST_BINS = 20  # powers of ten; smaller errors are in the first

Scalar = bool | int | float | complex


@dataclass(frozen=True)
class Extreme:
    """The largest error of one kind, and the element that has it."""

    error: float
    index: tuple[int, ...]
    expected: Scalar
    obtained: Scalar

    def __str__(self) -> str:
        where = f" at {list(self.index)}" if self.index else ""
        return f"{self.error:.4g}{where} (eager {_number(self.expected)}, graph {_number(self.obtained)})"


@dataclass(frozen=True)
class ErrorStatistics:
    """The errors of one tensor against another of the same shape and dtype."""

    dtype: str
    tolerance: Tolerance
    total: int
    mismatched: int
    largest_absolute: Extreme
    largest_relative: Extreme
    mean_absolute: float
    sqnr: float  # signal to noise in decibels; infinite where nothing differs
    cosine: float  # nan where one of the two is zero everywhere
    histogram: ErrorHistogram | None = None

    @property
    def share(self) -> float:
        """Return the part of the elements outside of the tolerance, between 0 and 1."""
        return self.mismatched / self.total

    def describe(self) -> tuple[str, str]:
        """Return two lines: the elements beyond the tolerance or the missed threshold, and the size of the error."""
        return (
            self._verdict(),
            f"max abs error {self.largest_absolute}; max rel error {self.largest_relative}; "
            f"mean {self.mean_absolute:.4g}, SQNR {self.sqnr:.1f} dB, cosine {self.cosine:.6f}",
        )

    def _verdict(self) -> str:
        if not self.mismatched:
            missed = _missed_thresholds(self.tolerance, self.sqnr, self.cosine)
            return f"{'; '.join(missed)} ({self.total} elements, {self.dtype})"
        share = f"{self.mismatched} of {self.total} elements ({self.share:.1%})"
        if math.isinf(self.tolerance.atol):
            return f"{share} are NaN or infinite in one run alone ({self.dtype})"
        return f"{share} differ beyond {self.tolerance} ({self.dtype})"


def measure(expected: torch.Tensor, obtained: torch.Tensor, tolerance: Tolerance) -> ErrorStatistics | None:
    """Compare two dense tensors of the same shape; return None if they agree, NaN with NaN.

    The largest errors are taken from the elements outside of the tolerance, if there are any.
    """
    expected, obtained = expected.detach().cpu(), obtained.detach().cpu()
    agrees = agreement(expected, obtained, tolerance)
    mismatched = int(agrees.numel() - agrees.sum())
    if not mismatched and not tolerance.has_thresholds:
        return None
    wide_expected, wide_obtained = _widen_both(expected, obtained)
    error = _absolute_error(wide_expected, wide_obtained)
    sqnr, cosine = _sqnr(wide_expected, error), _cosine(wide_expected, wide_obtained)
    if not mismatched and (sqnr == math.inf or not _missed_thresholds(tolerance, sqnr, cosine)):
        return None
    passed = agrees if mismatched else torch.zeros_like(agrees)
    relative = torch.where(error == 0, error, error / wide_expected.abs()).nan_to_num(nan=math.inf, posinf=math.inf)
    finite = error[error.isfinite()]
    return ErrorStatistics(
        dtype=str(expected.dtype).removeprefix("torch."),
        tolerance=tolerance,
        total=agrees.numel(),
        mismatched=mismatched,
        largest_absolute=_extreme(error, passed, expected, obtained),
        largest_relative=_extreme(relative, passed, expected, obtained),
        mean_absolute=float(finite.mean()) if finite.numel() else math.inf,
        sqnr=sqnr,
        cosine=cosine,
        histogram=_histogram(error, agrees),
    )


def agree(expected: torch.Tensor, obtained: torch.Tensor, tolerance: Tolerance) -> bool:
    """Return whether `measure` finds no difference of two tensors; most answers need no statistics."""
    if tolerance.has_thresholds:
        return measure(expected, obtained, tolerance) is None
    return bool(agreement(expected.detach().cpu(), obtained.detach().cpu(), tolerance).all())


def _missed_thresholds(asked: Tolerance, sqnr: float, cosine: float) -> list[str]:
    """Say which thresholds the figures of whole tensors miss; a cosine of NaN misses every threshold."""
    missed = []
    if asked.sqnr is not None and not sqnr >= asked.sqnr:
        missed.append(f"SQNR is {sqnr:.1f} dB, at least {asked.sqnr:g} dB was asked for")
    if asked.cosine is not None and not cosine >= asked.cosine:
        missed.append(f"cosine is {cosine:.6f}, at least {asked.cosine:g} was asked for")
    return missed


def agreement(expected: torch.Tensor, obtained: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Return for each element of two tensors whether it agrees; exact comparison does not round integers to floats."""
    if tolerance.is_exact:
        equal = _comparable(expected) == _comparable(obtained)
        if expected.is_floating_point() or expected.is_complex():
            equal = equal | (widened(expected).isnan() & widened(obtained).isnan())
        return equal
    wide_expected, wide_obtained = _widen_both(expected, obtained)
    return torch.isclose(wide_obtained, wide_expected, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)


def _comparable(values: torch.Tensor) -> torch.Tensor:
    """Widen 8-bit floats, because torch cannot compare them."""
    return widened(values) if values.is_floating_point() and values.dtype.itemsize == 1 else values


def _widen_both(expected: torch.Tensor, obtained: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Widen two tensors to one dtype, because a check may leave out the comparison of dtypes."""
    wide = torch.complex128 if expected.is_complex() or obtained.is_complex() else torch.float64
    return expected.to(wide), obtained.to(wide)


def _absolute_error(expected: torch.Tensor, obtained: torch.Tensor) -> torch.Tensor:
    """Return |obtained - expected|: 0 where both are the same infinity or both NaN, infinite where only one is."""
    error = (obtained - expected).abs()
    same = (expected == obtained) | (expected.isnan() & obtained.isnan())
    return torch.where(same, torch.zeros_like(error), error.nan_to_num(nan=math.inf, posinf=math.inf))


def _histogram(error: torch.Tensor, agrees: torch.Tensor) -> ErrorHistogram:
    """Count errors by power of ten, and errors within the tolerance apart."""
    known = error.isfinite() & (error > 0)
    exact, not_finite = int((error == 0).sum()), int((~error.isfinite()).sum())
    if not known.any():
        return ErrorHistogram(0, (), (), exact, not_finite)
    powers = error[known].log10().floor().to(torch.int64)
    last = int(powers.max())
    first = max(int(powers.min()), last - _MOST_BINS + 1)
    places, passed = (powers - first).clamp(min=0), agrees[known]
    bins = last - first + 1
    within, beyond = (torch.bincount(places[chosen], minlength=bins).tolist() for chosen in (passed, ~passed))
    return ErrorHistogram(first, tuple(within), tuple(beyond), exact, not_finite)


def _extreme(errors: torch.Tensor, passed: torch.Tensor, expected: torch.Tensor, obtained: torch.Tensor) -> Extreme:
    # -1 for elements within the tolerance, so that a mismatched element is the largest.
    errors = errors.masked_fill(passed, -1.0)
    flat = int(errors.argmax())
    index = tuple(int(place) for place in torch.unravel_index(torch.tensor(flat), errors.shape)) if errors.dim() else ()
    return Extreme(float(errors.reshape(-1)[flat]), index, expected[index].item(), obtained[index].item())


def _sqnr(expected: torch.Tensor, error: torch.Tensor) -> float:
    known = error.isfinite() & expected.isfinite()
    signal, noise = _norm(expected[known]), _norm(error[known])
    if not noise:
        return math.inf
    return 20 * math.log10(signal / noise) if signal else -math.inf


def _cosine(expected: torch.Tensor, obtained: torch.Tensor) -> float:
    known = expected.isfinite() & obtained.isfinite()
    expected, obtained = expected[known], obtained[known]
    sizes = _norm(expected), _norm(obtained)
    if not all(sizes):
        return math.nan
    return min(1.0, float(((expected / sizes[0]).conj() * (obtained / sizes[1])).sum().real))


def _norm(values: torch.Tensor) -> float:
    """Return the root of the sum of squares, also where a square is too large or too small for double precision."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    return largest * float((values / largest).abs().square().sum().sqrt()) if largest else 0.0


def _number(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, (float, complex)) else str(value)
