"""Functions of other modules, replaced from the import of each module on."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def called_instead(replacement: Callable[..., Any]) -> Wrap:
    """Return a wrapper of functions: `replacement` is called in place of a function, with the function in front."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return replacement(function, *args, **kwargs)

        return call

    return wrap


class Replacements:
    """Replaces functions and methods, and puts the originals back.

    A module that nobody has imported yet stays unimported: the import of torch's compiler takes seconds, and an early
    import of torch could change its settings. This object is a finder of imports until the end, and replaces right
    after an import.
    """

    def __init__(self) -> None:
        self.missing: dict[str, tuple[str, str]] = {}  # by kind: a module and the attribute that it lacks
        self._found: set[str] = set()
        self._asked: set[str] = set()  # modules that the other finders look for
        self._wanted: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._undo: list[tuple[Any, str, Any, Any]] = []  # owner, name, original, replacement

    def add(self, kind: str, places: Iterable[tuple[str, str]], wrap: Wrap) -> None:
        """Replace the function at each place, a module and an attribute, by `wrap(function)`."""
        for module, path in places:
            self.after_import(module, lambda found, path=path: self._replace(kind, found, path, wrap))  # type: ignore[misc]  # a default binds it

    def after_import(self, module: str, act: Callable[[ModuleType], None]) -> None:
        """Call `act` with a module after its import."""
        self._wanted.setdefault(module, []).append(act)

    def begin(self) -> None:
        """Replace in imported modules now, and in others after their import."""
        sys.meta_path.insert(0, self)
        for name in self._wanted:
            if name in sys.modules:
                self._imported(sys.modules[name])

    def end(self) -> None:
        """Put the originals back, except where somebody replaced the replacement."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for owner, name, original, replacement in reversed(self._undo):
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._undo.clear()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as the other finders do, and replace after its import."""
        # Another finder may ask all finders again, such as the one of a recording around this one.
        if fullname not in self._wanted or fullname in self._asked:
            return None
        self._asked.add(fullname)
        try:
            found = (each.find_spec(fullname, path, target) for each in [*sys.meta_path] if each is not self)
            spec = next(filter(None, found), None)
        finally:
            self._asked.discard(fullname)
        loader: Any = None if spec is None else spec.loader
        if not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # the one of the class serves again
            execute(module)
            self._imported(module)

        loader.exec_module = exec_module
        return spec

    def _imported(self, module: ModuleType) -> None:
        for act in self._wanted[module.__name__]:
            act(module)

    def _replace(self, kind: str, module: ModuleType, path: str, wrap: Wrap) -> None:
        *owners, name = path.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each, None)
        original = getattr(owner, "__dict__", {}).get(name)
        if original is None:
            if kind not in self._found:
                self.missing[kind] = module.__name__, path
            return
        self._found.add(kind)
        self.missing.pop(kind, None)
        replacement = wrap(original)
        setattr(owner, name, replacement)
        self._undo.append((owner, name, original, replacement))
