"""The progress of long work, in a line of the terminal that disappears at the end."""

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
    """Return whether a stream is an interactive terminal: no file, no log of a build, not dumb."""
    if stream is None or environ.get("TERM") == "dumb" or any(environ.get(name) for name in _IN_BUILDS):
        return False
    return stream.isatty()


def tracked(
    items: Sequence[_Item], done: str, stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[_Item]:
    """Yield items, and after a while show the number of finished items. Other output covers the line."""
    if not shows_progress(stream):
        yield from items
        return
    told_at, is_told = clock() + _SECONDS_BEFORE - _SECONDS_BETWEEN, False
    try:
        for number, item in enumerate(items):
            if clock() - told_at >= _SECONDS_BETWEEN:
                told_at, is_told = clock(), True
                # The line is short and leaves the cursor at its beginning, so that the next printed line covers it.
                stream.write(f"{number} of {len(items)} {done}{_ERASE}\r")
                stream.flush()
            yield item
    finally:
        if is_told:
            stream.write(_ERASE)
            stream.flush()
