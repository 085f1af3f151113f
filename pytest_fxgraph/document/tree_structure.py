"""How a graph whose inputs or outputs are flattened puts them together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .target_names import class_name


def structure_notes(graph: Any, text: Callable[[Any], str]) -> tuple[str, ...]:
    """Describe nested inputs and outputs; nothing for a graph that takes and returns its values as they are."""
    flattening = getattr(getattr(graph, "_codegen", None), "pytree_info", None)
    if flattening is None:
        return ()
    notes = [f"inputs: {', '.join(flattening.orig_args)}"]
    if flattening.in_spec is not None:
        notes.append(f"input structure: {structure_text(flattening.in_spec, text)}")
    if flattening.out_spec is not None:
        notes.append(f"output structure: {structure_text(flattening.out_spec, text)}")
    return tuple(notes)


def structure_text(spec: Any, text: Callable[[Any], str]) -> str:
    """Write a tree of pytree; a leaf is `*`. Not torch's own form of it, which changes with its version."""
    kind = spec.type
    if kind is None:
        return "*"
    children = [structure_text(child, text) for child in _children(spec)]
    if kind in (list, tuple):
        opening, closing = "[]" if kind is list else "()"
        comma = "," if kind is tuple and len(children) == 1 else ""
        return f"{opening}{', '.join(children)}{comma}{closing}"
    if issubclass(kind, dict) and isinstance(spec.context, list):
        items = [f"{text(key)}: {child}" for key, child in zip(spec.context, children, strict=True)]
        return "{" + ", ".join(items) + "}"
    return f"{class_name(kind)}({', '.join(children)})"


def _children(spec: Any) -> Any:
    # The attribute became a method in torch 2.9 or so; both are asked for.
    children = getattr(spec, "children", None)
    return children() if callable(children) else spec.children_specs
