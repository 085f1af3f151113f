"""torch's opaque objects: custom operators take them, and torch does not look into them.

The functions have the names of torch 2.14. An older torch has other names, and 2.14 warns about them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from torch._library import opaque_object as _torchs
except ImportError:  # torch before opaque objects
    _torchs = None  # type: ignore[assignment]  # no class is opaque


def _never(cls: Any) -> bool:
    return False


def _first_of(*names: str) -> Callable[[Any], bool]:
    return next((getattr(_torchs, name) for name in names if hasattr(_torchs, name)), _never)


# Whether generated code writes objects of a class as constants, and whether graphs pass them through unseen.
is_opaque_constant_type = _first_of("is_opaque_constant_type", "is_opaque_value_type")
is_opaque_symbolic_type = _first_of("is_opaque_symbolic_type", "is_opaque_reference_type")


def opaque_source(value: Any) -> tuple[str, dict[str, type]]:
    """Return the source of an object of an opaque constant type, and the names that the source needs."""
    text, names = _torchs.get_opaque_obj_repr(value)
    return str(text), names
