"""The modules of a process, so that a replay can tell whose code it recorded."""

from __future__ import annotations

import sys


def imported_modules() -> dict[str, str]:
    """Map each imported module outside any package to its file, Python's own modules left out.

    A namespace package has no file; the first of its folders counts.
    """
    found: dict[str, str] = {}
    for name, module in [*sys.modules.items()]:
        if "." in name or name in sys.stdlib_module_names:
            continue
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if isinstance(file, str):
            found[name] = file
    return found
