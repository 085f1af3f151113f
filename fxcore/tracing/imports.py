"""Imports by traced code: a module must not keep the trace's replacements of torch's functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fxcore.tracing.patching import REPLACEMENTS


class _UnpatchedLoader:
    """Runs a module as its own loader does, with the originals in place."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """Make the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Run the module."""
        module.__spec__.loader = module.__loader__ = self._loader
        with REPLACEMENTS.suspended():
            self._loader.exec_module(module)


class _Finder:
    """Stands before all other finders while a trace runs."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the result of the first other finder; the module will run with the originals in place."""
        for finder in sys.meta_path:
            find = None if isinstance(finder, _Finder) else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _UnpatchedLoader(spec.loader)
                return spec
        return None


@contextmanager
def imports_unpatched() -> Iterator[None]:
    """Let modules that are first imported now see torch without replacements, because they keep its functions."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
