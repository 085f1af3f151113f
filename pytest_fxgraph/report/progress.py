"""How far long work is, on a line of the terminal that is gone when the work is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO, TypeVar

_Item = TypeVar("_Item")

_ERASE = "\x1b[K"  # to the end of the line
_SECONDS_BEFORE, _SECONDS_BETWEEN = 0.5, 0.1
_IN_BUILDS = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD")


def shows_progress(stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a stream is a terminal at which somebody sits: neither a file, nor the log of a build, nor dumb."""
    if stream is None or environ.get("TERM") == "dumb" or any(environ.get(name) for name in _IN_BUILDS):
        return False
    return stream.isatty()


def tracked(
    items: Sequence[_Item], done: str, stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[_Item]:
    """Yield items and tell after a while how many are done: "12 of 400 compared"; what else is printed goes over it."""
    if not shows_progress(stream):
        yield from items
        return
    told_at, is_told = clock() + _SECONDS_BEFORE - _SECONDS_BETWEEN, False
    try:
        for number, item in enumerate(items):
            if clock() - told_at >= _SECONDS_BETWEEN:
                told_at, is_told = clock(), True
                # Short, and the cursor at its beginning, so that any line that is printed next covers it.
                stream.write(f"{number} of {len(items)} {done}{_ERASE}\r")
                stream.flush()
            yield item
    finally:
        if is_told:
            stream.write(_ERASE)
            stream.flush()
