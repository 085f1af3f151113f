"""Metadata that the nodes created in a `with` block get: where they come from, and what the user notes on them."""

from __future__ import annotations

import copy
import threading
import traceback as _traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "annotate",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_stack_trace",
]


class _State(threading.local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.is_preserving = False


_state = _State()

# What a new node takes over from the node being run or re-traced.
COPIED_FIELDS = (
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "_numeric_debug_handle",
    "custom",
    "partitioner_tag",
)


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Give nodes created in this block the metadata of the node being run, if `enable`."""
    if not enable:
        yield
        return
    before, meta = _state.is_preserving, _state.meta
    _state.is_preserving, _state.meta = True, dict(meta)
    try:
        yield
    finally:
        _state.is_preserving, _state.meta = before, meta


def has_preserved_node_meta() -> bool:
    """Tell whether new nodes take over metadata."""
    return _state.is_preserving


def get_current_meta() -> dict[str, Any]:
    """Return the metadata that new nodes take over."""
    return _state.meta


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Let new nodes take over the metadata of `node`, in this block and under `preserve_node_meta`."""
    if not (_state.is_preserving and node.meta):
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    try:
        yield
    finally:
        _state.meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Let new nodes say that they come from `stack`, formatted frames with the innermost last."""
    if _state.is_preserving and stack:
        _state.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Return the formatted frames that new nodes come from, or the present stack if none are set."""
    if _state.is_preserving:
        return [_state.meta.get("stack_trace", "")]
    return _traceback.format_list(_traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Put `annotation_dict` into `meta["custom"]` of the nodes that are created in this block.

    Blocks nest: the inner one adds to the outer one's notes.
    """
    before = _state.meta.get("custom")
    _state.meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            _state.meta.pop("custom", None)
        else:
            _state.meta["custom"] = before


def meta_for_new_node() -> dict[str, Any]:
    """Return the metadata for a node created now, under `preserve_node_meta`."""
    meta = {key: copy.copy(_state.meta[key]) for key in COPIED_FIELDS if key in _state.meta}
    if _state.meta.get("stack_trace"):
        meta["stack_trace"] = _state.meta["stack_trace"]
    return meta
