"""The user's stack at the time a node is recorded, as text."""

from __future__ import annotations

import linecache
from types import FrameType

from fxcore.user_frame import frames_from_here, is_library_file


def capture(*, forward_only: bool = False) -> str:
    """Return the frames from the outermost `forward` inwards, formatted, the innermost last; empty without a forward.

    With `forward_only`, just the frames of functions named `forward`. Frames of fxcore and torch are left out.
    """
    frames = list(frames_from_here())
    frames.reverse()
    start = next((index for index, frame in enumerate(frames) if frame.f_code.co_name == "forward"), None)
    if start is None:
        return ""
    shown = [frame for frame in frames[start:] if not is_library_file(frame.f_code.co_filename)]
    if forward_only:
        shown = [frame for frame in shown if frame.f_code.co_name == "forward"]
    return "".join([_formatted(frame) for frame in shown]).strip()


def _formatted(frame: FrameType) -> str:
    code = frame.f_code
    source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
    head = f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n'
    return head + (f"    {source}\n" if source else "")
