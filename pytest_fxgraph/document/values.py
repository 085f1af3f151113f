"""Shapes and dtypes as text, of tensors and of what shape propagation left in `node.meta`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from .literals import string_text

# Where a node's value is described, the most exact first: shape propagation, make_fx and export, Dynamo.
META_KEYS = ("tensor_meta", "val", "example_value")


def tensor_text(tensor: Any) -> str:
    """Write dtype and shape: `float32[2, 3]`; for anything that has both, such as TensorMetadata."""
    dtype, shape = tensor.dtype, tensor.shape
    try:
        return _known_text(dtype, shape)
    except TypeError:  # symbolic sizes are no keys
        return _text(dtype, shape)


def _text(dtype: torch.dtype, shape: Any) -> str:
    return f"{dtype_name(dtype)}[{', '.join(map(str, shape))}]"


# A model has few shapes, and a test suite hardly more.
_known_text = functools.lru_cache(maxsize=4096)(_text)


def dtype_name(dtype: torch.dtype) -> str:
    """Give the canonical name of a dtype: float32, also for torch.float."""
    return str(dtype).removeprefix("torch.")


def value_of(meta: Mapping[str, Any]) -> str | None:
    """Describe the value that a node's meta knows of; None where it knows nothing."""
    for key in META_KEYS:
        value = meta.get(key)
        if value is not None:
            return value_text(value)
    return None


def value_text(value: Any) -> str:
    """Describe tensors in nested tuples, lists and dicts; what is no tensor is described by its type."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return tensor_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key_text(key)}: {value_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    return "None" if value is None else type(value).__name__


def _key_text(key: object) -> str:
    return string_text(key) if isinstance(key, str) else str(key)
