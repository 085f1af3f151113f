"""How far two values may lie apart and still count as equal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from pytest_fxgraph.equivalence.state.storage import wrapped_tensors

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


@dataclass(frozen=True)
class Tolerance:
    """Two values agree where |obtained - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float

    @property
    def is_exact(self) -> bool:
        """Tell whether only equal values agree."""
        return self.rtol == 0 and self.atol == 0

    def __str__(self) -> str:
        return "exact equality" if self.is_exact else f"rtol={self.rtol:g}, atol={self.atol:.3g}"


@dataclass(frozen=True)
class ToleranceRule:
    """The tolerances that the caller asked for; None follows what is compared.

    Without `rtol` the dtype decides, as in torch.testing. Without `atol` its default is multiplied by the largest
    finite magnitude of the expected tensor where that is below 1, so that an output of 1e-9 is compared as closely as
    one of 1; a tensor that is all zeros must be all zeros. An `atol` that the caller gave is taken as it is. Raises
    ValueError for a tolerance below 0.
    """

    rtol: float | None = None
    atol: float | None = None
    scale: float | None = None  # what a default atol is multiplied by, instead of the tensor's largest magnitude

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be a number of at least 0, got {value!r}")

    def for_tensor(self, expected: torch.Tensor, dtype: torch.dtype | None = None) -> Tolerance:
        """Return the tolerance for an expected tensor; integers and bools are exact unless the caller set one.

        `dtype` decides instead of the tensor's own, where these are the values of a quantized tensor.
        """
        scale = self.scale
        if scale is None and self.atol is None:
            scale = min(1.0, largest_magnitude([expected]))
        return self._scaled(dtype or expected.dtype, scale)

    def for_number(self, expected: complex) -> Tolerance:
        """Return the tolerance for a Python number, which is compared as one of float64."""
        return self._scaled(torch.float64, min(1.0, abs(expected)))

    def grown(self, expected: torch.Tensor) -> Tolerance | None:
        """Return the tolerance at which rounding may explain an error in large values; None if it does not differ."""
        largest = largest_magnitude([expected])
        if self.atol is not None or largest <= 1 or not math.isfinite(largest):
            return None
        return self._scaled(expected.dtype, largest)

    def for_gradients(self, gradients: Iterable[torch.Tensor]) -> ToleranceRule:
        """Return the rule for gradients of one kind, of inputs or of parameters.

        Some are rounding alone, as that of a bias before batch norm, so that their own magnitude says nothing: the
        largest of all counts. Below 0.01 the default atol is a thousandth of it (in float32).
        """
        return replace(self, scale=min(1.0, 100 * largest_magnitude(gradients)))

    def _scaled(self, dtype: torch.dtype, scale: float | None) -> Tolerance:
        rtol, atol = _DEFAULTS.get(dtype, (0.0, 0.0))
        rtol = rtol if self.rtol is None else self.rtol
        return Tolerance(rtol, atol * (scale or 0.0) if self.atol is None else self.atol)


def largest_magnitude(tensors: Iterable[torch.Tensor]) -> float:
    """Return the largest finite magnitude in some tensors; 0 where there is none."""
    return max((_largest_magnitude(tensor.detach()) for tensor in tensors), default=0.0)


def _largest_magnitude(tensor: torch.Tensor) -> float:
    if tensor.is_nested:
        return largest_magnitude(tensor.unbind())
    if wrapped := wrapped_tensors(tensor):
        return largest_magnitude(wrapped.values())
    if not tensor.numel() or tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    # Narrow types are widened: some know no comparison, and the magnitude of a complex number may overflow.
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else _wide(tensor)
    largest = float(torch.linalg.vector_norm(wide, math.inf))
    if math.isfinite(largest):
        return largest
    finite = wide[wide.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
