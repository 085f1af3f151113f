"""Registrations and flags of torch.fx that torch and libraries share, read and set at their place in torch.fx.

fxcore does not import torch.fx. If torch or a library has imported it, its registrations hold for fxcore too, and
torch's question about a running trace gets a true answer. All look-ups go through `sys.modules` and are guarded,
because these names are private to torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import torch

from fxcore.errors import InteropError

_own_side_effects: set[Callable[..., Any]] = {torch._assert}
# torch has this list itself since a version after 2.6.
RANDOM = frozenset(
    {
        *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.rand_like, torch.randn_like),
        *(torch.randint_like, torch.normal, torch.poisson, torch.bernoulli, torch.multinomial),
    }
)


def side_effectful_functions() -> set[Callable[..., Any]]:
    """Return the one set of functions whose calls must stay in a graph: torch.fx's set if torch.fx is imported."""
    shared = getattr(sys.modules.get("torch.fx.node"), "_side_effectful_functions", None)
    return shared if isinstance(shared, set) else _own_side_effects


def wrapped_functions() -> dict[tuple[int, str], dict[str, Any]]:
    """Return the registrations of `torch.fx.wrap`: (id of a module's globals, name) -> these globals."""
    registered = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_wrapped_fns_to_patch", None)
    return registered if isinstance(registered, dict) else {}


def wrapped_methods() -> list[tuple[type, str]]:
    """Return the methods that torch.fx records as calls."""
    registered = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_wrapped_methods_to_patch", None)
    return registered if isinstance(registered, list) else []


def proxy_class() -> type | None:
    """Return torch.fx's class of proxies, if torch.fx is imported. Libraries use it to detect a trace."""
    found = getattr(sys.modules.get("torch.fx.proxy"), "Proxy", None)
    return found if isinstance(found, type) else None


def is_graph_module_of_torch(module: object) -> bool:
    """Return whether an object is a GraphModule of torch.fx. Graphs that came through interop may contain them."""
    found = getattr(sys.modules.get("torch.fx.graph_module"), "GraphModule", None)
    return isinstance(found, type) and isinstance(module, found)


# Files of torch.fx that look for torch's own nodes among arguments, and find none in a graph of fxcore.
FINDS_NO_NODES = frozenset(
    {
        *("torch.fx.graph", "torch.fx.graph_module", "torch.fx.interpreter", "torch.fx.subgraph_rewriter"),
        *("torch.fx.passes.split_module", "torch.fx.passes.split_utils", "torch.fx.passes.splitter_base"),
        *("torch.fx.passes.net_min_base", "torch.fx.passes.dialect.common.cse_pass"),
        *("torch.fx.passes.utils.fuser_utils", "torch.fx.passes.utils.matcher_utils"),
        *("torch.fx.experimental.graph_gradual_typechecker", "torch.fx.experimental.unify_refinements"),
    }
)


def refuse_pass_of_torch() -> NoReturn:
    """Raise InteropError (a TypeError) for the caller's caller, code of one of the files above that reads a graph."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("torch.fx."):
        function, owner = frame.f_code.co_name, frame.f_locals.get("self")
        names = [type(owner).__name__] * (owner is not None) + [function] * (function not in ("__init__", "__call__"))
        name, frame = ".".join(names), frame.f_back
    raise InteropError(
        f"cannot run {name} of torch.fx on a graph of fxcore: it does not find nodes of fxcore among arguments, and "
        "would fail later or return a broken graph; give it fxcore.interop.to_torch(graph_module)"
    )


def refuse_code_of_torch(name: str) -> None:
    """Raise InteropError (a TypeError) if the caller's caller is torch.fx, which writes an argument of its own graph.

    torch's functions do not find nodes of fxcore among arguments. After `graph_copy` or `split_module` of torch.fx, a
    graph would call its operators on values of another graph.
    """
    frame = sys._getframe(2)
    # A user's code generator, a class of torch.fx, may write the code of a graph of fxcore.
    if frame.f_code.co_name == "_get_repr" and frame.f_globals.get("__name__") == "torch.fx.graph":
        raise InteropError(
            f"cannot write code for a graph of torch.fx: it reads {name!r}, a node of fxcore, because a pass of "
            "torch.fx copied nodes of a graph of fxcore; give the pass fxcore.interop.to_torch(graph_module)"
        )


class _TracingFlag(threading.local):
    """Replacement for torch.fx's flag, one per process: true in tracing threads, false in the others."""

    depth = 0  # nested traces of this thread

    def __bool__(self) -> bool:
        return self.depth > 0

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return repr(bool(self))


TRACING_FLAG = _TracingFlag()
_flag_lock = threading.Lock()
_traces_running: list[object] = []  # of all threads


@contextmanager
def tracing() -> Iterator[None]:
    """Let `torch.fx._symbolic_trace.is_fx_tracing()` answer yes for a block, in this thread only.

    A plain True would stop compiled modules in other threads. Of two overlapping traces, the later one would restore
    the True that it found.
    """
    TRACING_FLAG.depth += 1
    try:
        has_flag_for_each_thread = hasattr(sys.modules.get("torch.fx._symbolic_trace"), "_set_is_fx_tracing")
        with _threads_flag_set() if has_flag_for_each_thread else _process_flag_set():
            yield
    finally:
        TRACING_FLAG.depth -= 1


def is_tracing() -> bool:
    """Return whether this thread is tracing."""
    return bool(TRACING_FLAG)


@contextmanager
def _threads_flag_set() -> Iterator[None]:
    """Set the flag of torch 2.14 and later: one per thread."""
    tracer: Any = sys.modules["torch.fx._symbolic_trace"]
    before = tracer._get_is_fx_tracing()
    tracer._set_is_fx_tracing(True)
    try:
        yield
    finally:
        tracer._set_is_fx_tracing(before)


@contextmanager
def _process_flag_set() -> Iterator[None]:
    """Set the flag of torch before 2.14: one per process."""
    this_trace = object()
    with _flag_lock:
        _traces_running.append(this_trace)
        _exchange_flag(False, TRACING_FLAG)
    try:
        yield
    finally:
        with _flag_lock:
            _traces_running.remove(this_trace)
            if not _traces_running:
                _exchange_flag(TRACING_FLAG, False)


def _exchange_flag(expected: object, replacement: object) -> None:
    tracer = sys.modules.get("torch.fx._symbolic_trace")
    if getattr(tracer, "_is_fx_tracing_flag", None) is expected:
        tracer._is_fx_tracing_flag = replacement  # type: ignore[union-attr]  # it has the flag, so it is a module


def random_functions() -> frozenset[Any]:
    """Return the Python functions that draw from the global random state, as torch lists them."""
    known = getattr(sys.modules.get("torch._library.utils"), "_RANDOM_FUNCTIONS", None)
    return RANDOM if known is None else frozenset(known)
