"""What is the caller's bytecode about to do with the value that it asked for?"""

from __future__ import annotations

import dis
import functools
from types import CodeType, FrameType


def unpacked_length(frame: FrameType) -> int | None:
    """Return n if `frame` is unpacking a value into n names (`a, b = value`); None if it is doing anything else."""
    return _unpacked_length(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _unpacked_length(code: CodeType, offset: int) -> int | None:
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            return int(instruction.argval) if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def is_assertion(frame: FrameType) -> bool:
    """Tell whether `frame` is asking for a truth value because of an `assert` statement."""
    return _is_assertion(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _is_assertion(code: CodeType, offset: int) -> bool:
    instructions = [item for item in dis.get_instructions(code) if item.opname not in ("CACHE", "EXTENDED_ARG")]
    position = next((index for index, item in enumerate(instructions) if item.offset >= offset), None)
    if position is None:
        return False
    following = instructions[position : position + 4]
    if following and following[0].opname == "TO_BOOL":
        following = following[1:]
    if len(following) < 2 or not (following[0].opname.startswith("POP_JUMP") and "TRUE" in following[0].opname):
        return False
    raised = next((item for item in following[1:] if item.opname != "NOT_TAKEN"), None)
    return raised is not None and _loads_assertion_error(raised)


def _loads_assertion_error(instruction: dis.Instruction) -> bool:
    if instruction.opname == "LOAD_ASSERTION_ERROR":
        return True
    # 3.14 has a common opcode for a few well-known objects.
    return "AssertionError" in instruction.argrepr and instruction.opname in ("LOAD_GLOBAL", "LOAD_COMMON_CONSTANT")
