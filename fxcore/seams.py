"""Seams: functions that a lower file calls and a file above provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Seam(Generic[_P, _R]):
    """A function that is called here and written above: `@SEAM.provide` provides it.

    Because imports run downhill, the caller cannot import the function. The architecture test holds each seam to one
    provider above it, and refuses assignments to another file's classes, which do the same out of sight.
    """

    def __init__(self) -> None:
        self._function: Callable[_P, _R] | None = None

    def provide(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Call `function` from now on; a decorator."""
        self._function = function
        return function

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the provided function. `import fxcore` imports every provider."""
        assert self._function is not None
        return self._function(*args, **kwargs)
