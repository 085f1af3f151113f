"""How far two values may lie apart and still count as equal."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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
        return "exact equality" if self.is_exact else f"rtol={self.rtol:g}, atol={self.atol:g}"


@dataclass(frozen=True)
class ToleranceRule:
    """The tolerances that the caller asked for; None follows the dtype, as in torch.testing.

    Raises ValueError for a tolerance below 0.
    """

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be a number of at least 0, got {value!r}")

    def for_dtype(self, dtype: torch.dtype) -> Tolerance:
        """Return the tolerance for tensors of this dtype; integers and bools are exact unless the caller set one."""
        rtol, atol = _DEFAULTS.get(dtype, (0.0, 0.0))
        return Tolerance(rtol if self.rtol is None else self.rtol, atol if self.atol is None else self.atol)
