"""The two sides that are compared, under the same names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.task import nothing


@dataclass(frozen=True)
class Library:
    """What a benchmark uses of an FX system."""

    name: str
    fx: Any
    subgraph_rewriter: Any
    ShapeProp: Any
    # Throws away compiled code of earlier forwards, if the library keeps any.
    forget_code: Callable[[], object] = nothing


def _library(package: str, forget_code: Callable[[], object] = nothing) -> Library:
    return Library(
        package,
        importlib.import_module(package),
        importlib.import_module(f"{package}.subgraph_rewriter"),
        importlib.import_module(f"{package}.passes.shape_prop").ShapeProp,
        forget_code,
    )


def both() -> tuple[Library, Library]:
    """Return fxcore and torch.fx."""
    cache = importlib.import_module("fxcore.codegen.source_cache").SOURCES
    return _library("fxcore", cache.forget_compiled), _library("torch.fx")
