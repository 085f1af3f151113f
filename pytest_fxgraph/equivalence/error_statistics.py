"""The error of an obtained tensor: how many elements differ, by how much, where."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pytest_fxgraph.equivalence.tolerance import Tolerance

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

    @property
    def share(self) -> float:
        """Return the part of the elements outside of the tolerance, between 0 and 1."""
        return self.mismatched / self.total if self.total else 0.0

    def describe(self) -> tuple[str, str]:
        """Return two lines: how many elements differ beyond which tolerance, and by how much."""
        return (
            f"{self.mismatched} of {self.total} elements ({self.share:.1%}) differ beyond {self.tolerance} "
            f"({self.dtype})",
            f"max abs error {self.largest_absolute}; max rel error {self.largest_relative}; "
            f"mean {self.mean_absolute:.4g}, SQNR {self.sqnr:.1f} dB, cosine {self.cosine:.6f}",
        )


def measure(expected: torch.Tensor, obtained: torch.Tensor, tolerance: Tolerance) -> ErrorStatistics | None:
    """Compare two dense tensors of the same shape and dtype; return None if all elements agree, NaN with NaN.

    The elements named as largest errors are among those outside of the tolerance.
    """
    expected, obtained = expected.detach().cpu(), obtained.detach().cpu()
    agrees = agreement(expected, obtained, tolerance)
    mismatched = int(agrees.numel() - agrees.sum())
    if not mismatched:
        return None
    wide_expected, wide_obtained = _widen(expected), _widen(obtained)
    error = _absolute_error(wide_expected, wide_obtained)
    # -1 for elements within the tolerance, so that a mismatched element is the largest.
    outside = torch.where(agrees, torch.full_like(error, -1.0), error)
    relative = torch.where(error == 0, error, error / wide_expected.abs()).nan_to_num(nan=math.inf, posinf=math.inf)
    relative_outside = torch.where(agrees, torch.full_like(error, -1.0), relative)
    finite = error[error.isfinite()]
    return ErrorStatistics(
        dtype=str(expected.dtype).removeprefix("torch."),
        tolerance=tolerance,
        total=agrees.numel(),
        mismatched=mismatched,
        largest_absolute=_extreme(outside, expected, obtained),
        largest_relative=_extreme(relative_outside, expected, obtained),
        mean_absolute=float(finite.mean()) if finite.numel() else math.inf,
        sqnr=_sqnr(wide_expected, error),
        cosine=_cosine(wide_expected, wide_obtained),
    )


def agreement(expected: torch.Tensor, obtained: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Tell for each element of two tensors whether it agrees; exact comparison does not round integers to floats."""
    if tolerance.is_exact:
        equal = _comparable(expected) == _comparable(obtained)
        if expected.is_floating_point() or expected.is_complex():
            equal = equal | (_widen(expected).isnan() & _widen(obtained).isnan())
        return equal
    return torch.isclose(_widen(obtained), _widen(expected), rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)


def _comparable(values: torch.Tensor) -> torch.Tensor:
    """Widen 8-bit floats, for which torch has no comparison."""
    return _widen(values) if values.is_floating_point() and values.dtype.itemsize == 1 else values


def _widen(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def _absolute_error(expected: torch.Tensor, obtained: torch.Tensor) -> torch.Tensor:
    """Return |obtained - expected|: 0 where both are the same infinity or both NaN, infinite where only one is."""
    error = (obtained - expected).abs()
    same = (expected == obtained) | (expected.isnan() & obtained.isnan())
    return torch.where(same, torch.zeros_like(error), error.nan_to_num(nan=math.inf, posinf=math.inf))


def _extreme(errors: torch.Tensor, expected: torch.Tensor, obtained: torch.Tensor) -> Extreme:
    flat = int(errors.argmax())
    index = tuple(int(place) for place in torch.unravel_index(torch.tensor(flat), errors.shape)) if errors.dim() else ()
    return Extreme(float(errors.reshape(-1)[flat]), index, expected[index].item(), obtained[index].item())


def _sqnr(expected: torch.Tensor, error: torch.Tensor) -> float:
    known = error.isfinite() & expected.isfinite()
    signal, noise = float(expected[known].abs().square().sum()), float(error[known].square().sum())
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _cosine(expected: torch.Tensor, obtained: torch.Tensor) -> float:
    known = expected.isfinite() & obtained.isfinite()
    expected, obtained = expected[known], obtained[known]
    size = float(expected.abs().square().sum().sqrt() * obtained.abs().square().sum().sqrt())
    return float((expected.conj() * obtained).sum().real) / size if size else math.nan


def _number(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, (float, complex)) else str(value)
