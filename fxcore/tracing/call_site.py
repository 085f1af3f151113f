"""The place of the traced code: the user's frame and line, the stack, and the use of a value in the bytecode."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import linecache
import operator
import os
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

_FXCORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOST = object()
# Instructions that belong to the one before or after. In warm code of Python 3.11, a call of a builtin runs at PRECALL.
NO_STEPS = ("CACHE", "EXTENDED_ARG", "PRECALL")
_LIBRARIES = (_FXCORE + os.sep, os.path.dirname(torch.__file__) + os.sep)
_NUMPY = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "numpy") + os.sep
_NO_FILES = ("<frozen ", "<string>")  # imports, and methods that dataclasses and named tuples generate
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep  # site-packages lie below it


def is_library_file(file_name: str) -> bool:
    """Return whether a file is fxcore's or torch's own."""
    return file_name.startswith(_LIBRARIES)


def frames_from_here() -> Iterator[FrameType]:
    """Yield the frames of the stack, innermost first, without that of the caller."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


@functools.lru_cache(maxsize=4096)
def is_user_file(file_name: str) -> bool:
    """Return whether a file is neither fxcore's, torch's or numpy's, nor of Python's standard library."""
    if file_name.startswith((*_LIBRARIES, _NUMPY, *_NO_FILES)):
        return False
    return not file_name.startswith(_STANDARD_LIBRARY) or "-packages" in file_name


def user_frame() -> FrameType | None:
    """Return the innermost frame in a file of the user, or None."""
    for frame in frames_from_here():
        if is_user_file(frame.f_code.co_filename):
            return frame
    return None


class RunningCall(NamedTuple):
    """A call that runs, told apart from other calls on the same line: the calling frame, and its instruction."""

    frame: FrameType
    instruction: int


def running_call(frame: FrameType | None) -> RunningCall | None:
    """Return the call in `frame`, or in a frame outside of it, that led into fxcore; None without a caller."""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES[0]):
        frame = frame.f_back
    return None if frame is None else RunningCall(frame, frame.f_lasti)


def user_stacklevel() -> int:
    """Return the `stacklevel` that makes a warning of the calling function point to the user's line."""
    for level, frame in enumerate(frames_from_here(), start=1):
        if is_user_file(frame.f_code.co_filename):
            return level
    return 1


def user_line() -> str:
    """Return `file:line: source text` of the user's line that is running, or an empty text."""
    frame = user_frame()
    if frame is None:
        return ""
    return shown_line(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def shown_line(file_name: str, line: int, names: dict[str, Any] | None = None) -> str:
    """Return `file:line: source text`, without the text where it cannot be found."""
    source = linecache.getline(file_name, line, names).strip()
    return f"{file_name}:{line}" + (f": {source}" if source else "")


def returning_line(code: CodeType) -> str:
    """Return `file:line: source text` of the statement that returned a value other than a constant.

    If there are several such statements, return all of their lines; without one, the first line of the function.
    """
    lines = _return_statements(code) or return_lines(code) or (code.co_firstlineno,)
    if len(lines) == 1:
        return shown_line(code.co_filename, lines[0])
    return f"{code.co_filename}:{', '.join(map(str, lines[:-1]))} or {lines[-1]}"


def _return_statements(code: CodeType) -> tuple[int, ...]:
    """Return the lines of the `return` statements in the source of a function; empty without source."""
    try:
        function = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except (OSError, SyntaxError, IndexError):
        return ()
    if not isinstance(function, ast.FunctionDef) or function.name != code.co_name:
        return ()
    found: list[int] = []
    unvisited: list[ast.AST] = list(reversed(function.body))
    while unvisited:
        statement = unvisited.pop()
        if isinstance(statement, ast.Return) and not isinstance(statement.value, (ast.Constant, type(None))):
            found.append(code.co_firstlineno + statement.lineno - 1)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            unvisited += reversed(list(ast.iter_child_nodes(statement)))
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def return_lines(code: CodeType) -> tuple[int, ...]:
    """Return the lines where a function may return another value than a constant, in order.

    The lines come from the bytecode: a return from inside `with` or `try` may have the line of that statement.
    """
    found: set[int] = set()
    for before, item in itertools.pairwise(_instructions(code)):
        if item.opname == "RETURN_VALUE" and not before.opname.startswith(("LOAD_CONST", "LOAD_SMALL")):
            line = next((each for start, end, each in code.co_lines() if start <= item.offset < end), None)
            if line is not None:
                found.add(line)
    return tuple(sorted(found))


def instructions_from(code: CodeType, offset: int) -> list[dis.Instruction]:
    """Return the instructions at an offset and behind it."""
    return [item for item in _instructions(code) if item.offset >= offset]


@functools.lru_cache(maxsize=64)  # reading an instruction takes 10 microseconds
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple([item for item in dis.get_instructions(code) if item.opname not in NO_STEPS])


def unpacked_length(frame: FrameType) -> int | None:
    """Return n if `frame` is unpacking a value into n names (`a, b = value`), else None."""
    instruction = instruction_at(frame.f_code, frame.f_lasti)
    return int(instruction.argval) if instruction is not None and instruction.opname == "UNPACK_SEQUENCE" else None


@functools.lru_cache(maxsize=4096)
def instruction_at(code: CodeType, offset: int) -> dis.Instruction | None:
    """Return the instruction at an offset of a function, such as the running one (`frame.f_lasti`)."""
    return next((each for each in dis.get_instructions(code) if each.offset == offset), None)


def is_assertion(frame: FrameType, asked: Any) -> bool:
    """Return whether an `assert` statement in `frame` asks for the truth of the result of the function `asked`."""
    return _is_assertion(frame.f_code, frame.f_lasti, asked is operator.eq)


def raising_truth(frame: FrameType, asked: Any) -> bool | None:
    """Return the truth that makes `frame` only raise an error, as in `if bad: raise`; None if `frame` does more."""
    return _raising_truth(frame.f_code, frame.f_lasti, asked is operator.eq)


@functools.lru_cache(maxsize=1024)
def _raising_truth(code: CodeType, offset: int, is_equality: bool) -> bool | None:
    following = _from_jump(code, offset, is_equality)
    if not following or not following[0].opname.startswith("POP_JUMP") or "NONE" in following[0].opname:
        return None
    for item in following[1:]:
        if item.opname == "RAISE_VARARGS":
            return "FALSE" in following[0].opname
        if any(word in item.opname for word in ("JUMP", "STORE", "RETURN", "YIELD", "ITER")):
            return None
    return None


def is_redundant_condition(frame: FrameType, answer: bool) -> bool:
    """Return whether `frame` reads another condition next, and takes the same branch for both answers.

    So it is in `if torch.is_grad_enabled() and self.checkpoints:` if the plain attribute is false.
    """
    found = _second_condition(frame.f_code, frame.f_lasti)
    if found is None or ("TRUE" in found[0].opname) is answer:
        return False
    jump, operand, second = found
    truth: Any = _LOST
    for item in operand:
        truth = _loaded(item, truth, frame)
    if not isinstance(truth, bool):
        return False
    is_taken = ("TRUE" in second.opname) is truth
    return bool(jump.argval == (second.argval if is_taken else _following_offset(frame.f_code, second)))


@functools.lru_cache(maxsize=1024)
def _second_condition(
    code: CodeType, offset: int
) -> tuple[dis.Instruction, tuple[dis.Instruction, ...], dis.Instruction] | None:
    """Return the jump that needs the value got at an offset, the loads of the next condition, and their jump.

    Return None for a value that no jump needs, and for a next condition of another kind.
    """
    following = [item for item in instructions_from(code, offset + 1) if item.opname not in ("TO_BOOL", "NOT_TAKEN")]
    if not following or not _jumps_by_truth(following[0]):
        return None
    for index, item in enumerate(following[1:], start=1):
        if _jumps_by_truth(item):
            return following[0], tuple(following[1:index]), item
        if not item.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR")):  # `not` is in the jump
            break
    return None


def _jumps_by_truth(instruction: dis.Instruction) -> bool:
    return instruction.opname.startswith("POP_JUMP") and instruction.opname.endswith(("TRUE", "FALSE"))


def _following_offset(code: CodeType, instruction: dis.Instruction) -> int | None:
    following = (item for item in instructions_from(code, instruction.offset + 1) if item.opname != "NOT_TAKEN")
    return next((item.offset for item in following), None)


def _loaded(item: dis.Instruction, owner: Any, frame: FrameType) -> Any:
    """Return the variable, or the plain attribute of `owner`, that an instruction loads."""
    if item.opname.startswith("LOAD_ATTR"):
        if item.argval in getattr(owner, "__dict__", {}):
            return vars(owner)[item.argval]
        found = inspect.getattr_static(type(owner), item.argval, _LOST)
        return getattr(found, "behind_watch", found)  # of an attribute that the trace watches
    return frame.f_locals.get(item.argval, _LOST)


def _from_jump(code: CodeType, offset: int, is_equality: bool) -> list[dis.Instruction]:
    """Return the instructions from the jump on that needs the truth asked for at an offset."""
    following = instructions_from(code, offset)
    if following and (following[0].opname == "TO_BOOL" or _asks_result(following[0], is_equality)):
        following = following[1:]
    return following


@functools.lru_cache(maxsize=1024)
def _is_assertion(code: CodeType, offset: int, is_equality: bool) -> bool:
    following = _from_jump(code, offset, is_equality)
    if not following or not (following[0].opname.startswith("POP_JUMP") and "TRUE" in following[0].opname):
        return False
    raised = next((item for item in following[1:] if item.opname != "NOT_TAKEN"), None)
    return raised is not None and _loads_assertion_error(raised)


def _asks_result(instruction: dis.Instruction, is_equality: bool) -> bool:
    """Return whether a comparison asks for the truth of its own result, as in Python 3.13 and later before a jump."""
    if instruction.opname != "COMPARE_OP" or not instruction.argrepr.startswith("bool("):
        return False
    # A compared list asks whether its items are equal, for every comparison.
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
