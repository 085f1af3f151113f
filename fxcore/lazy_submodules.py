"""Submodules that a package imports on first access: `fxcore.passes.shape_prop` after `import fxcore`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any


def on_demand(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports its submodules."""

    def import_submodule(name: str) -> Any:
        path = f"{package}.{name}"
        # Python asks every package for dunder names.
        if name.startswith("__") or importlib.util.find_spec(path) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(path)

    return import_submodule
