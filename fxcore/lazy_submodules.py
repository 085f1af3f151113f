"""Submodules that a package imports on first access: `fxcore.passes.shape_prop` after `import fxcore`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def on_demand(package: str, *names: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports its submodules `names`."""

    def import_submodule(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return import_submodule
