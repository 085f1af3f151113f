"""The use of a text that running code makes of a value: a message for people, or anything else.

`warnings.warn(f"slow for {x.shape}")` asks for the shape, and no result depends on the answer.
"""

from __future__ import annotations

import builtins
import dis
import functools
import logging
import warnings
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from fxcore.tracing.call_site import instruction_at, instructions_from
from fxcore.tracing.recorder import SymbolicValue

MESSAGE, ASSERTION = "message", "assertion"

_WRITERS = ("logging", "warnings", "traceback")  # modules that make texts of their arguments
_MAKES_TEXT = ("FORMAT_", "CONVERT_VALUE")
_JOINS_TEXTS = ("BUILD_STRING", "BINARY_ADD", "BINARY_MODULO")
_LOADS = ("LOAD_", "PUSH_NULL", "COPY", "DUP_TOP", "KW_NAMES")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_SAYING = frozenset({"_assert", "warn", "warn_explicit", "warning_once", "info_once", *dir(logging.Logger)})


class _Callee(NamedTuple):
    """The called function as its code names it: the kind of the first name, and the names of attributes behind it."""

    load: str
    first: Any
    attributes: tuple[str, ...]


def use_of_text(frame: FrameType) -> str | None:
    """Return MESSAGE or ASSERTION if the text that `frame` makes is only for people to read, else None.

    An assertion is a call of `torch._assert`, which the graph may repeat with its text.
    """
    if str(frame.f_globals.get("__name__")).partition(".")[0] in _WRITERS:
        return MESSAGE
    for callee in _callees(frame.f_code, frame.f_lasti):
        called = _value_of(callee, frame)
        if getattr(called, "replaced_by_trace", called) is torch._assert:
            return ASSERTION
        if _is_for_people(called):
            return MESSAGE
    return None


def is_percent_format(frame: FrameType) -> bool:
    """Return whether `frame` runs the operator `%`."""
    item = instruction_at(frame.f_code, frame.f_lasti)
    return item is not None and (item.opname, item.argrepr) in (("BINARY_OP", "%"), ("BINARY_MODULO", ""))


def _is_for_people(called: Any) -> bool:
    if isinstance(called, type):
        return issubclass(called, BaseException)
    owner = getattr(called, "__self__", None)
    if isinstance(owner, (logging.Logger, logging.LoggerAdapter)):
        return True
    return called in (print, warnings.warn) or getattr(called, "__module__", None) == "logging"


def _value_of(callee: _Callee, frame: FrameType) -> Any:
    """Return the function that a frame calls; None if it is not known, or asking for it could run code."""
    value: Any = None
    if callee.load.startswith(("LOAD_FAST", "LOAD_DEREF")):
        value = frame.f_locals.get(callee.first)
    elif callee.load.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
        value = frame.f_globals.get(callee.first, getattr(builtins, str(callee.first), None))
    if value is logging:
        return logging.info  # or another function of the module, or a method of a logger that it gives
    if callee.attributes and callee.attributes[-1] not in _SAYING:
        return None
    for name in callee.attributes:
        if isinstance(value, SymbolicValue):
            return None
        value = getattr(value, name, None)
    return value


@functools.lru_cache(maxsize=1024)
def _callees(code: CodeType, offset: int) -> tuple[_Callee, ...]:
    """Return the function that the instruction at an offset calls, and the function that its result is given to.

    The second function gets the result as it is, or as a part of a longer text.
    """
    instructions = instructions_from(code, 0)
    position = next((index for index, item in enumerate(instructions) if item.offset >= offset), None)
    if position is None:
        return ()
    found = []
    if _is_call(instructions[position]):
        found.append(_callee(instructions, position))
    taking = _taking_call(instructions, position)
    if taking is not None:
        found.append(_callee(instructions, taking))
    return tuple(each for each in found if each is not None)


def _taking_call(instructions: Sequence[dis.Instruction], position: int) -> int | None:
    """Return the position of the call that takes the result of an instruction, or a text that the result becomes."""
    above = 0  # values on the stack above the text
    for index in range(position + 1, len(instructions)):
        item = instructions[index]
        taken = 1 - _effect(item)
        if _is_call(item) and taken > above:
            return index
        if item.opname in _JOINS_TEXTS or (item.opname == "BINARY_OP" and item.argrepr in ("+", "%")):
            above = 0 if taken > above else above - taken + 1
        elif item.opname.startswith(_MAKES_TEXT):
            above += _effect(item)
        elif item.opname.startswith(_LOADS) or _is_call(item):
            if item.opname.startswith(_ATTRIBUTES) and not above:
                return None
            above += _effect(item)
        elif item.opname.startswith(("BINARY_", "BUILD_", "UNARY_", "COMPARE_")) and taken <= above:
            above += _effect(item)
        else:
            return None
    return None


def _callee(instructions: Sequence[dis.Instruction], call: int) -> _Callee | None:
    """Return the function that an instruction calls. It is the first value that the call takes from the stack."""
    missing = 1 - _effect(instructions[call])
    for index in range(call - 1, -1, -1):
        item = instructions[index]
        if "JUMP" in item.opname or item.opname.startswith(("STORE_", "POP_", "RETURN_")):
            return None
        missing -= _effect(item)
        if missing <= 0:
            start = index + (item.opname == "PUSH_NULL")
            first = instructions[start]
            attributes = []
            for each in instructions[start + 1 : call]:
                if not each.opname.startswith(_ATTRIBUTES):
                    break
                attributes.append(str(each.argval))
            is_name = first.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME"))
            return _Callee(first.opname, first.argval, tuple(attributes)) if is_name else None
    return None


def _is_call(item: dis.Instruction) -> bool:
    return item.opname.startswith("CALL") and not item.opname.startswith(("CALL_INTRINSIC", "CALL_FUNCTION_EX"))


def _effect(item: dis.Instruction) -> int:
    """Return how many values an instruction adds to the stack."""
    if item.opname == "CALL":
        return -1 - int(item.arg or 0)
    return dis.stack_effect(item.opcode, item.arg if item.opcode >= dis.HAVE_ARGUMENT else None)
