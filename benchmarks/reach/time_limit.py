"""A limit on the time that one piece of work takes, in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTimeError(BaseException):
    """The work took too long. Not an Exception, so that a model's own handlers let it pass."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in the block once it has run for so long. Compiled code is interrupted when it returns."""

    def stop(*_: Any) -> None:
        raise OutOfTimeError(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
