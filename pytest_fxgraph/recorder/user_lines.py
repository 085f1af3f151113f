"""The user's line that asked for a graph, and the name of the model."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import pluggy
import pytest

_FURTHER = ("torch", "fxcore", "pytest_fxgraph")
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = ("site-packages", "dist-packages")
_PYTEST = tuple(os.path.dirname(os.path.abspath(str(each.__file__))) + os.sep for each in (pytest, pluggy))


def user_line(rootpath: Path) -> str:
    """Return the running line that is closest to the caller and outside torch, pytest, Python and this project.

    The file is relative to rootdir: `tests/test_model.py:12`. The file of an installed package begins with the package.
    Return "" if there is no such line.
    """
    for frame in frames():
        if _is_of_user(frame.f_code.co_filename):
            return f"{_shown(frame.f_code.co_filename, rootpath)}:{frame.f_lineno}"
    return ""


def frames() -> Iterator[FrameType]:
    """Yield the running frames outside this package, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    own = os.path.dirname(__file__)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(own):
            yield frame
        frame = frame.f_back


@cache
def _is_of_user(file: str) -> bool:
    if file.startswith(("<", *_PYTEST, *_packages())) or f"{os.sep}_pytest{os.sep}" in file:
        return False
    return not file.startswith(_PYTHON) or any(f"{os.sep}{name}{os.sep}" in file for name in _PACKAGES)


@cache
def _packages() -> tuple[str, ...]:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _FURTHER]
    return tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in files if file)


@cache
def _shown(file: str, rootpath: Path) -> str:
    for root in (str(rootpath), *sorted(filter(None, sys.path), key=len, reverse=True)):
        if file.startswith(root.rstrip(os.sep) + os.sep):
            return os.path.relpath(file, root).replace(os.sep, "/")
    return file.replace(os.sep, "/")


def name_of_model(model: Any) -> str:
    """Return the class of a module, or the name of a function, with its Python module."""
    if isinstance(model, partial):
        return name_of_model(model.func)
    named = model if hasattr(model, "__qualname__") else type(model)
    # torch.fx makes a class for each graph module.
    name = named.__name__ if "GraphModuleImpl" in named.__qualname__ else named.__qualname__
    return f"{named.__module__}.{name}"
