"""Modes that nodes of a graph switch (autocast, grad mode), put back where an error ends a run between the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fxcore.codegen.source_cache import SOURCES
from fxcore.graph import Graph
from fxcore.state.readings import Readings
from fxcore.state.settings import SETTINGS

_SWITCHES = ("_enter_autocast", "_set_grad_enabled", "_enter_inference_mode")
_MODES = [each for each in SETTINGS if each.path == "grad mode" or "autocast" in each.path]


def run_source(
    source: str,
    names: dict[str, Any],
    origin: dict[str, Any] | None = None,
    *,
    shown: str | None = None,
    on_error: Callable[[Any, BaseException, dict[str, Any]], None] | None = None,
) -> None:
    """Execute the source of a forward as `SOURCES.run` does. If the code switches modes, an error in it ends them.

    `on_error` takes the module, an error in the code, and the variables. The lines keep their numbers: the code of a
    graph begins with empty lines, and its indentation is 4.
    """
    lines = source.split("\n")
    start = next((index for index, line in enumerate(lines) if line.startswith("def forward(")), 0)
    is_needed = on_error is not None or any(f"{name}(" in source for name in _SWITCHES)
    if is_needed and start >= 2 and not any(lines[start - 2 : start]):
        names |= {"_fxcore_modes": _present_modes, "_fxcore_end": _end_modes, "_fxcore_failed": on_error}
        head = [lines[start], " _fxcore_kept = _fxcore_modes()", " try:"]
        tail = [" except BaseException as _fxcore_error:", "  _fxcore_end(_fxcore_kept)"]
        tail += ["  _fxcore_failed(self, _fxcore_error, locals())"] if on_error is not None else []
        tail += ["  raise", ""]
        shown = source if shown is None else shown
        source = "\n".join([*lines[: start - 2], *head, *lines[start + 1 :], *tail])
    SOURCES.run(source, names, origin, shown=shown)


def switches_modes(graph: Graph) -> bool:
    """Return whether nodes of a graph switch modes."""
    return any(
        getattr(node._target, "__name__", "") in _SWITCHES for node in graph.nodes if node._op == "call_function"
    )


@contextmanager
def modes_ended() -> Iterator[None]:
    """Put the modes back if an error leaves the with block."""
    kept = _present_modes()
    try:
        yield
    except BaseException:
        _end_modes(kept)
        raise


def _present_modes() -> Readings | None:
    return None if torch.compiler.is_compiling() else Readings(_MODES)


def _end_modes(kept: Readings | None) -> None:
    if kept is not None:
        kept.restore()
