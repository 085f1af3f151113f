"""Where the traced code is: the user's frame and line, the stack, and what its bytecode does with a value."""

from __future__ import annotations

import dis
import functools
import linecache
import operator
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch

_FXCORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = (_FXCORE + os.sep, os.path.dirname(torch.__file__) + os.sep)


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


def user_stacklevel() -> int:
    """Return the `stacklevel` with which a warning of the calling function points to the user's line."""
    for level, frame in enumerate(frames_from_here(), start=1):
        if not is_library_file(frame.f_code.co_filename):
            return level
    return 1


def user_line() -> str:
    """Return `file:line: source text` of the user's line that is running; empty if there is none."""
    frame = user_frame()
    if frame is None:
        return ""
    file_name = frame.f_code.co_filename
    source = linecache.getline(file_name, frame.f_lineno, frame.f_globals).strip()
    return f"{file_name}:{frame.f_lineno}" + (f": {source}" if source else "")


def unpacked_length(frame: FrameType) -> int | None:
    """Return n if `frame` is unpacking a value into n names (`a, b = value`); None if it is doing anything else."""
    return _unpacked_length(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _unpacked_length(code: CodeType, offset: int) -> int | None:
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            return int(instruction.argval) if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def is_assertion(frame: FrameType, asked: Any) -> bool:
    """Tell whether `frame` asks for the truth of what the function `asked` gave because of an `assert` statement."""
    return _is_assertion(frame.f_code, frame.f_lasti, asked is operator.eq)


@functools.lru_cache(maxsize=1024)
def _is_assertion(code: CodeType, offset: int, is_equality: bool) -> bool:
    instructions = [item for item in dis.get_instructions(code) if item.opname not in ("CACHE", "EXTENDED_ARG")]
    position = next((index for index, item in enumerate(instructions) if item.offset >= offset), None)
    if position is None:
        return False
    following = instructions[position : position + 4]
    if following and (following[0].opname == "TO_BOOL" or _asks_result(following[0], is_equality)):
        following = following[1:]
    if len(following) < 2 or not (following[0].opname.startswith("POP_JUMP") and "TRUE" in following[0].opname):
        return False
    raised = next((item for item in following[1:] if item.opname != "NOT_TAKEN"), None)
    return raised is not None and _loads_assertion_error(raised)


def _asks_result(instruction: dis.Instruction, is_equality: bool) -> bool:
    """Tell whether a comparison asks for the truth of its own result, as in Python 3.13 and later before a jump."""
    if instruction.opname != "COMPARE_OP" or not instruction.argrepr.startswith("bool("):
        return False
    # A list that is compared asks whether its items are equal, whatever the comparison.
    return (instruction.argrepr == "bool(==)") is is_equality


def _loads_assertion_error(instruction: dis.Instruction) -> bool:
    if instruction.opname == "LOAD_ASSERTION_ERROR":
        return True
    # 3.14 has a common opcode for a few well-known objects.
    return "AssertionError" in instruction.argrepr and instruction.opname in ("LOAD_GLOBAL", "LOAD_COMMON_CONSTANT")


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
