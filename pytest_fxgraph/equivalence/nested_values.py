"""Nested values: which parts a container has, and by which path each is reached.

torch's pytree takes unregistered mappings, dataclasses and subclasses of list for leaves, and never returns from a
container that holds itself, so it is asked last, for types registered there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as torch_pytree


def parts_of(value: object) -> list[tuple[str, Any]] | None:
    """List the parts of a container, each with the step of a path that leads to it: "[0]", ".name"; None for a leaf."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{entry.name}", getattr(value, entry.name)) for entry in dataclasses.fields(value)]
    return _registered_parts(value)


def _registered_parts(value: object) -> list[tuple[str, Any]] | None:
    """List the parts of a type registered with torch's pytree."""
    if isinstance(value, torch.Tensor):
        return None
    registered = getattr(torch_pytree, "SUPPORTED_NODES", {}).get(type(value))
    if registered is None:
        return None
    parts, _ = registered.flatten_fn(value)
    return [(f".<part {index}>", part) for index, part in enumerate(parts)]


def walk(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path, which begins with `path`; a container inside itself is not entered again."""
    yield from _walk(value, path, set())


def _walk(value: object, path: str, entered: set[int]) -> Iterator[tuple[str, Any]]:
    parts = parts_of(value)
    if parts is None:
        yield path, value
        return
    if id(value) in entered:
        return
    entered.add(id(value))
    for step, part in parts:
        yield from _walk(part, path + step, entered)
    entered.discard(id(value))


def tensors_in(value: object, path: str) -> list[tuple[str, torch.Tensor]]:
    """List the tensors in a nested value with their paths, which begin with `path`."""
    return [(where, leaf) for where, leaf in walk(value, path) if isinstance(leaf, torch.Tensor)]
