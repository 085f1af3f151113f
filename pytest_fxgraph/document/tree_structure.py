"""How a graph whose inputs or outputs are flattened puts them together again."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
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
    if spec.type is None:
        return "*"
    children = [structure_text(child, text) for child in _children(spec)]
    if spec.type in (list, tuple):
        opening, closing = "[]" if spec.type is list else "()"
        comma = "," if spec.type is tuple and len(children) == 1 else ""
        return f"{opening}{', '.join(children)}{comma}{closing}"
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        return _mapping_text(spec, children, text)
    # Of a named tuple, torch keeps the class as the context of a type that all of them share.
    kind = spec.type if isinstance(spec.type, type) else spec.context
    names = _names_of_parts(kind, spec.context, len(children))
    parts = [f"{name}={child}" for name, child in zip(names, children, strict=True)] if names else children
    return f"{class_name(kind)}({', '.join([*parts, *_other_parts(spec.context)])})"


def _mapping_text(spec: Any, children: Sequence[str], text: Callable[[Any], str]) -> str:
    keys = spec.context[1] if issubclass(spec.type, defaultdict) else spec.context
    items = "{" + ", ".join(f"{text(key)}: {child}" for key, child in zip(keys, children, strict=True)) + "}"
    if issubclass(spec.type, defaultdict):
        return f"{class_name(spec.type)}({class_name(spec.context[0])}, {items})"
    return items if spec.type is dict else f"{class_name(spec.type)}({items})"


def _names_of_parts(kind: Any, context: Any, count: int) -> Sequence[str]:
    """Name the fields of a named tuple or a data class; nothing, where the parts have no names."""
    names = getattr(kind, "_fields", None)
    if names is None and dataclasses.is_dataclass(kind) and isinstance(context, list) and context:
        names = context[0]
    return names if isinstance(names, (list, tuple)) and len(names) == count else ()


def _other_parts(context: Any) -> list[str]:
    """Tell what is no child: the fields of a data class that are None, and the bound of a deque."""
    if isinstance(context, list) and len(context) == 2 and isinstance(context[1], list):
        return [f"{name}=None" for name in context[1]]
    return [f"maxlen={context}"] if isinstance(context, int) else []


def _children(spec: Any) -> Any:
    # The attribute became a method in torch 2.9 or so; both are asked for.
    children = getattr(spec, "children", None)
    return children() if callable(children) else spec.children_specs
