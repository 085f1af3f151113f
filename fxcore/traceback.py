"""Metadata that the nodes created in a `with` block get: where they come from, and what the user notes on them."""

from __future__ import annotations

import copy
import functools
import threading
import traceback as _traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

from fxcore.errors import GraphArgumentError
from fxcore.node_source import NodeSource, NodeSourceAction

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

_F = TypeVar("_F", bound=Callable[..., Any])


class _State(threading.local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.is_preserving = False
        self.replayed: Any | None = None


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
    """Give nodes created in this block the metadata of the node being run, or no longer, as `enable` says."""
    before, meta = _state.is_preserving, _state.meta
    _state.is_preserving, _state.meta = enable, dict(meta)
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


class _CurrentMeta:
    """A block in which new nodes take over other metadata. A class: passes enter one per node, and generators cost."""

    __slots__ = ("_before", "_meta")

    def __init__(self, meta: dict[str, Any] | None) -> None:
        self._meta = meta

    def __enter__(self) -> None:
        self._before = _state.meta
        if self._meta is not None:
            _state.meta = self._meta

    def __exit__(self, *error: object) -> None:
        if self._meta is not None:
            _state.meta = self._before


def set_current_meta(node: Any, pass_name: str = "") -> AbstractContextManager[None]:
    """Let new nodes take over the metadata of `node`, in this block and under `preserve_node_meta`.

    Their `meta["from_node"]` says that they were made of it, by `pass_name`.
    """
    if not (_state.is_preserving and node.meta):
        return _CurrentMeta(None)
    return _CurrentMeta({**node.meta, "from_node": [NodeSource(node, pass_name, NodeSourceAction.CREATE)]})


def set_stack_trace(stack: list[str]) -> None:
    """Let new nodes say that they come from `stack`, formatted frames with the innermost last; nothing if empty."""
    if not _state.is_preserving:
        return
    if stack:
        _state.meta["stack_trace"] = "".join(stack)
    else:
        _state.meta.pop("stack_trace", None)


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


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_F], _F]:
    """Make a decorator that runs a function in a block of `annotate`."""

    def decorator(function: _F) -> _F:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return cast(_F, annotated)

    return decorator


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Let new nodes say that they belong to the backward of the operation with this number in autograd's counting."""
    if _state.is_preserving:
        meta = _state.meta
        meta["grad_fn_seq_nr"] = [*meta.get("grad_fn_seq_nr", []), seq_nr]
        meta["in_grad_fn"] = meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last `set_grad_fn_seq_nr`. Raises GraphArgumentError (an AssertionError) if there is none."""
    if not _state.is_preserving:
        return
    meta = _state.meta
    depth = meta.get("in_grad_fn", 0)
    if depth <= 0:
        raise GraphArgumentError(f"Expected current_level > 0, got {depth}: call set_grad_fn_seq_nr() first")
    meta["in_grad_fn"], meta["grad_fn_seq_nr"] = depth - 1, meta["grad_fn_seq_nr"][:-1]
    if depth == 1:
        del meta["in_grad_fn"], meta["grad_fn_seq_nr"]


@contextmanager
def set_current_replay_node(node: Any | None) -> Iterator[None]:
    """Say that this block makes `node` anew."""
    before = _state.replayed
    _state.replayed = node
    try:
        yield
    finally:
        _state.replayed = before


def get_current_replay_node() -> Any | None:
    """Return the node that is being made anew; None if none is."""
    return _state.replayed


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Return, for every function call in `graph`, where it comes from, as plain data."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return {node.name: [source.to_dict() for source in node.meta.get("from_node", [])] for node in calls}


def meta_for_new_node() -> dict[str, Any]:
    """Return the metadata for a node created now, under `preserve_node_meta`."""
    return meta_taken_over(_state.meta)


def meta_taken_over(current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata for a node that takes over `current`."""
    meta = {key: _copied(current[key]) for key in COPIED_FIELDS if key in current}
    if current.get("stack_trace"):
        meta["stack_trace"] = current["stack_trace"]
    return meta


def _copied(value: Any) -> Any:
    # What most of the fields hold knows how to copy itself several times faster than the module copy does.
    return value.copy() if type(value) in (list, dict, OrderedDict) else copy.copy(value)
