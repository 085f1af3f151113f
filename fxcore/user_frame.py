"""Which line of the user's program are we in?"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from types import FrameType

import torch

_LIBRARIES = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(torch.__file__) + os.sep)


def is_library_file(file_name: str) -> bool:
    """Tell whether a file is fxcore's or torch's own."""
    return file_name.startswith(_LIBRARIES)


def frames_from_here() -> Iterator[FrameType]:
    """Yield the frames of the stack, innermost first, without that of the caller."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame() -> FrameType | None:
    """Return the innermost frame that is neither fxcore's nor torch's; None if there is none."""
    for frame in frames_from_here():
        if not is_library_file(frame.f_code.co_filename):
            return frame
    return None


def user_line() -> str:
    """Return `file:line: source text` of the user's line that is running; empty if there is none."""
    frame = user_frame()
    if frame is None:
        return ""
    file_name = frame.f_code.co_filename
    source = linecache.getline(file_name, frame.f_lineno, frame.f_globals).strip()
    return f"{file_name}:{frame.f_lineno}" + (f": {source}" if source else "")
