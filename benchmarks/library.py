"""The two sides that are compared, under the same names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.task import Task, nothing


@dataclass(frozen=True)
class Library:
    """What a benchmark uses of an FX system."""

    name: str
    fx: Any
    subgraph_rewriter: Any
    ShapeProp: Any
    # Throws away compiled code of earlier forwards, if the library keeps any.
    forget_code: Callable[[], object] = nothing
    # Makes this library the one that is imported; matters only where two checkouts of one are measured.
    activate: Callable[[], None] = nothing

    def task(self, make: Callable[..., Task], *arguments: Any) -> Task:
        """Return what `make` makes for this library; the library is active whenever the task is prepared or run."""
        self.activate()
        task = make(self, *arguments)

        def prepare() -> Any:
            self.activate()
            return task.prepare()

        return Task(task.run, prepare)


def _library(package: str) -> Library:
    return Library(
        package,
        importlib.import_module(package),
        importlib.import_module(f"{package}.subgraph_rewriter"),
        importlib.import_module(f"{package}.passes.shape_prop").ShapeProp,
    )


def fxcore_library(name: str = "fxcore") -> Library:
    """Return the fxcore that is imported."""
    library = _library("fxcore")
    cache = next(
        module for path, module in sys.modules.items() if path.startswith("fxcore.") and "source_cache" in path
    )
    return replace(library, name=name, forget_code=cache.SOURCES.forget_compiled)


def both() -> tuple[Library, Library]:
    """Return fxcore and torch.fx."""
    return fxcore_library(), _library("torch.fx")
