"""The fxcore of another checkout beside this one's, in one process, so that both are measured in turns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from benchmarks.library import Library, fxcore_library


def beside(checkout: Path) -> tuple[Library, Library]:
    """Return this checkout's fxcore, and that of another checkout of this repository.

    Their modules have the same names: `Library.activate` puts those of one into `sys.modules`. Raises
    ModuleNotFoundError if there is no fxcore in the folder.
    """
    here = fxcore_library()
    ours = _loaded()
    _forget(ours)
    sys.path.insert(0, str(checkout.resolve()))
    try:
        there = fxcore_library(f"fxcore of {checkout.resolve().name}")
    finally:
        sys.path.remove(str(checkout.resolve()))
    theirs = _loaded()
    if Path(str(theirs["fxcore"].__file__)).parents[1] != checkout.resolve():
        raise ModuleNotFoundError(f"there is no fxcore in {checkout}; give the root of a checkout")
    return replace(here, activate=activation(ours)), replace(there, activate=activation(theirs))


def activation(modules: dict[str, ModuleType]) -> Callable[[], None]:
    """Return a function that makes `modules`, and what they import later, the fxcore that is imported."""

    def activate() -> None:
        if sys.modules.get("fxcore") is not modules["fxcore"]:
            _forget(_loaded())
            sys.modules.update(modules)

    return activate


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] == "fxcore"}


def _forget(modules: dict[str, ModuleType]) -> None:
    for name in modules:
        del sys.modules[name]
