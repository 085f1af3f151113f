"""What torch and other libraries ask of torch.fx, read and set where torch.fx keeps it.

fxcore does not import torch.fx. Where it has been imported, though, by torch itself or by a library, its registrations
hold for fxcore too, and torch's question whether somebody is tracing gets a true answer. Everything is looked up
through `sys.modules` and guarded, since these are torch's private names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_own_side_effects: set[Callable[..., Any]] = {torch._assert}


def side_effectful_functions() -> set[Callable[..., Any]]:
    """Return the one set of functions whose calls must stay in a graph, torch.fx's if it is there."""
    shared = getattr(sys.modules.get("torch.fx.node"), "_side_effectful_functions", None)
    return shared if isinstance(shared, set) else _own_side_effects


def wrapped_functions() -> dict[tuple[int, str], dict[str, Any]]:
    """Return what `torch.fx.wrap` registered: (id of a module's globals, name) -> those globals."""
    registered = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_wrapped_fns_to_patch", None)
    return registered if isinstance(registered, dict) else {}


def wrapped_methods() -> list[tuple[type, str]]:
    """Return the methods that torch.fx was told to record as calls."""
    registered = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_wrapped_methods_to_patch", None)
    return registered if isinstance(registered, list) else []


@contextmanager
def tracing() -> Iterator[None]:
    """Let `torch.fx._symbolic_trace.is_fx_tracing()` answer True for a while."""
    tracer = sys.modules.get("torch.fx._symbolic_trace")
    if not hasattr(tracer, "_is_fx_tracing_flag"):
        yield
        return
    before = tracer._is_fx_tracing_flag  # type: ignore[union-attr]  # hasattr above says it is a module
    tracer._is_fx_tracing_flag = True  # type: ignore[union-attr]
    try:
        yield
    finally:
        tracer._is_fx_tracing_flag = before  # type: ignore[union-attr]


def random_functions() -> frozenset[Any]:
    """Return the Python-level functions that torch knows to draw from the global random state."""
    known = getattr(sys.modules.get("torch._library.utils"), "_RANDOM_FUNCTIONS", None)
    return frozenset(known) if known is not None else frozenset({torch.rand, torch.randn, torch.randint})
