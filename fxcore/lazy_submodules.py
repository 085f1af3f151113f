"""Submodules that a package imports on first access: `fxcore.passes.shape_prop` after `import fxcore`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any


def on_demand(package: str, names: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports its submodules; `names` maps a name to its submodule."""

    def import_submodule(name: str) -> Any:
        if names is not None and name in names:
            return getattr(importlib.import_module(f"{package}.{names[name]}"), name)
        path = f"{package}.{name}"
        # Python asks every package for dunder names.
        if name.startswith("__") or importlib.util.find_spec(path) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(path)

    return import_submodule
