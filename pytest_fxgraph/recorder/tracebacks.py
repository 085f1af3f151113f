"""Tracebacks without the recorder, as a run without a recording has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def without_recorder(error: BaseException) -> None:
    """Take the frames of the recorder out of the tracebacks of an error and of the errors that led to it."""
    for each in _led_to(error):
        each.__traceback__ = _without(each.__traceback__)


def _led_to(error: BaseException) -> Iterator[BaseException]:
    unvisited, seen = [error], set[int]()
    while unvisited:
        each = unvisited.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            unvisited += [other for other in (each.__cause__, each.__context__) if other is not None]
            unvisited += getattr(each, "exceptions", ())  # of a group


def _without(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    entry = traceback
    while entry is not None:
        while entry.tb_next is not None and _is_ours(entry.tb_next):
            entry.tb_next = entry.tb_next.tb_next
        entry = entry.tb_next
    return traceback


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_HERE)
