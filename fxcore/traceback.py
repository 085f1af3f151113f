"""Metadata for the nodes created in a `with` block: their origin, and notes of the user."""

from __future__ import annotations

import copy
import functools
import threading
import traceback as _traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any, TypeVar, cast

from fxcore.errors import GraphArgumentError

_DEEPEST_SHOWN = 9


class NodeSourceAction(Enum):
    """The action by which a pass made a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """One step in the history of a node: the pass, its source node, and the history of the source.

    Passes keep a list of these in `node.meta["from_node"]`.
    """

    class NodeInfo:
        """The source node."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name = name
            self.target = target
            self.graph_id = graph_id

    def __init__(
        self, node: Any | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        """Record that `pass_name` made a node from `node` and copy that node's history.

        Pass None for a node without a source.
        """
        self.pass_name = pass_name
        self.action = list(action) if isinstance(action, list) else [action] if action is not None else []
        self.node_info = None if node is None else self.NodeInfo(node.name, str(node.target), id(node.graph))
        older = None if node is None else node.meta.get("from_node")
        self.from_node: list[NodeSource] = copy.deepcopy(older) if older else []

    @property
    def name(self) -> str:
        """The name of the source node; empty without one."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The target of the source node as text; empty without one."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The id of the source node's graph; -1 without one."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join([action.name.lower() for action in self.action])

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """Return the history as text, one line per step. Older steps are indented further."""
        if indent > _DEEPEST_SHOWN:
            return ""
        line = (
            f"(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, "
            f"graph_id={self.graph_id})\n"
        )
        return "    " * indent + line + "".join([source.print_readable(indent + 1) for source in self.from_node])

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain data."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        """Return the history that `to_dict` wrote as `d`; None for None."""
        if d is None:
            return None
        source = cls(None, d.get("pass_name", ""))
        known = NodeSourceAction.__members__
        source.action = [known[name.upper()] for name in d.get("action", "").split("+") if name.upper() in known]
        if "name" in d and "target" in d and "graph_id" in d:
            source.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        older = [cls._from_dict(each) for each in d.get("from_node") or []]
        source.from_node = [each for each in older if each is not None]
        return source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


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


THREAD = _State()
# One item for each running block of `preserve_node_meta`, in any thread. Reading a field of `THREAD` is slow: a trace
# that asks this list first takes 0.99 of the time.
RUNNING_BLOCKS: list[None] = []


# Variables of torch.fx's file that libraries read. Here each thread has its own values.
_VARIABLES = {"current_meta": "meta", "should_preserve_node_meta": "is_preserving", "current_replay_node": "replayed"}


def __getattr__(name: str) -> Any:
    if name in _VARIABLES:
        return getattr(THREAD, _VARIABLES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Metadata that a new node copies from the node being run or re-traced. A list, because libraries add to it.
COPIED_FIELDS = [
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
]


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Copy, or with `enable=False` do not copy, the metadata of the node being run to nodes created in this block."""
    before, meta = THREAD.is_preserving, THREAD.meta
    THREAD.is_preserving, THREAD.meta = enable, dict(meta)
    RUNNING_BLOCKS.append(None)
    try:
        yield
    finally:
        RUNNING_BLOCKS.pop()
        THREAD.is_preserving, THREAD.meta = before, meta


def has_preserved_node_meta() -> bool:
    """Return whether new nodes copy metadata."""
    return THREAD.is_preserving


def get_current_meta() -> dict[str, Any]:
    """Return the metadata that new nodes copy."""
    return THREAD.meta


class _CurrentMeta:
    """A block with other metadata for new nodes.

    A class, because passes enter a block per node and generators are slower.
    """

    __slots__ = ("_before", "_meta")

    def __init__(self, meta: dict[str, Any] | None) -> None:
        self._meta = meta

    def __enter__(self) -> None:
        self._before = THREAD.meta
        if self._meta is not None:
            THREAD.meta = self._meta

    def __exit__(self, *error: object) -> None:
        if self._meta is not None:
            THREAD.meta = self._before


def set_current_meta(node: Any, pass_name: str = "") -> AbstractContextManager[None]:
    """Let new nodes copy the metadata of `node`, in this block and under `preserve_node_meta`.

    Their `meta["from_node"]` says that `pass_name` made them from `node`.
    """
    meta = node.meta if THREAD.is_preserving else None
    if not meta:
        return _CurrentMeta(None)
    return _CurrentMeta({**meta, "from_node": [NodeSource(node, pass_name, NodeSourceAction.CREATE)]})


def set_stack_trace(stack: list[str]) -> None:
    """Give new nodes the stack trace `stack`: formatted frames, the innermost last.

    An empty list removes the stack trace.
    """
    if not THREAD.is_preserving:
        return
    if stack:
        THREAD.meta["stack_trace"] = "".join(stack)
    else:
        THREAD.meta.pop("stack_trace", None)


def format_stack() -> list[str]:
    """Return the formatted frames given to new nodes, or the present stack if there are none."""
    if THREAD.is_preserving:
        return [THREAD.meta.get("stack_trace", "")]
    return _traceback.format_list(_traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Put `annotation_dict` into `meta["custom"]` of the nodes created in this block.

    Blocks nest: an inner block adds to the outer block's notes.
    """
    before = THREAD.meta.get("custom")
    THREAD.meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            THREAD.meta.pop("custom", None)
        else:
            THREAD.meta["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_F], _F]:
    """Return a decorator that runs a function in a block of `annotate`."""

    def decorator(function: _F) -> _F:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return cast(_F, annotated)

    return decorator


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Mark new nodes as part of the backward of the operation with this number in autograd's counting."""
    if THREAD.is_preserving:
        meta = THREAD.meta
        meta["grad_fn_seq_nr"] = [*meta.get("grad_fn_seq_nr", []), seq_nr]
        meta["in_grad_fn"] = meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last `set_grad_fn_seq_nr`. Raises GraphArgumentError (an AssertionError) if there is none."""
    if not THREAD.is_preserving:
        return
    meta = THREAD.meta
    depth = meta.get("in_grad_fn", 0)
    if depth <= 0:
        raise GraphArgumentError(f"Expected current_level > 0, got {depth}: call set_grad_fn_seq_nr() first")
    meta["in_grad_fn"], meta["grad_fn_seq_nr"] = depth - 1, meta["grad_fn_seq_nr"][:-1]
    if depth == 1:
        del meta["in_grad_fn"], meta["grad_fn_seq_nr"]


@contextmanager
def set_current_replay_node(node: Any | None) -> Iterator[None]:
    """Record that this block makes `node` again."""
    before = THREAD.replayed
    THREAD.replayed = node
    try:
        yield
    finally:
        THREAD.replayed = before


def get_current_replay_node() -> Any | None:
    """Return the node that is being made again; None outside of such a block."""
    return THREAD.replayed


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Return the history of every function call in `graph` as plain data."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return {node.name: [source.to_dict() for source in node.meta.get("from_node", [])] for node in calls}


def meta_for_new_node() -> dict[str, Any]:
    """Return the metadata for a node created now, under `preserve_node_meta`."""
    return meta_taken_over(THREAD.meta)


def meta_taken_over(current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata for a node that copies `current`."""
    meta = {key: _copied(current[key]) for key in COPIED_FIELDS if key in current}
    if current.get("stack_trace"):
        meta["stack_trace"] = current["stack_trace"]
    return meta


def _copied(value: Any) -> Any:
    # These containers copy themselves several times faster than the module copy does.
    return value.copy() if type(value) in (list, dict, OrderedDict) else copy.copy(value)
