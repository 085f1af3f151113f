"""What torch knows of opaque objects: of classes that custom operators take, and that torch does not look into.

Asked by the names of torch 2.14 or, where it lacks them, by those that 2.14 warns of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from torch._library import opaque_object as _torchs
except ImportError:  # torch before opaque objects
    _torchs = None  # type: ignore[assignment]  # then no class is opaque


def _never(cls: Any) -> bool:
    return False


def _first_of(*names: str) -> Callable[[Any], bool]:
    return next((getattr(_torchs, name) for name in names if hasattr(_torchs, name)), _never)


# Tells whether objects of a class are written into code, as constants; whether they are handed through graphs unseen.
is_opaque_constant_type = _first_of("is_opaque_constant_type", "is_opaque_value_type")
is_opaque_symbolic_type = _first_of("is_opaque_symbolic_type", "is_opaque_reference_type")


def opaque_source(value: Any) -> tuple[str, dict[str, type]]:
    """Return the source of an object of an opaque constant type, and the names that it needs."""
    text, names = _torchs.get_opaque_obj_repr(value)
    return str(text), names
