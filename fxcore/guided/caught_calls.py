"""Calls inside a `try` statement of the traced code, which goes on where one of them fails.

The graph has the way of the example, where the call succeeds. Such a call is a guard: the graph refuses where it fails.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import NamedTuple

from fxcore.tracing.call_site import frames_from_here

# Errors that code catches for itself: a call of torch raises none of these.
_NOT_OF_TORCH = frozenset(
    {
        *("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "UnboundLocalError", "KeyError"),
        *("StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit"),
        *("OSError", "IOError", "FileNotFoundError", "PermissionError", "TimeoutError", "UnicodeError", "SyntaxError"),
    }
)


class CaughtLines(NamedTuple):
    """The lines of one `try` block, and the names of the errors that the statement catches and does not raise again."""

    first: int
    last: int
    errors: tuple[str, ...]


class CaughtCalls:
    """The `try` statements of the functions that one trace may run."""

    def __init__(self, codes: Iterable[CodeType]) -> None:
        self._lines = {inner: lines for code in codes for inner in _with_inner(code) if (lines := _caught_lines(inner))}

    def errors_here(self) -> tuple[str, ...]:
        """Return the names of the errors that the running code would catch if the call that it makes failed."""
        if not self._lines:
            return ()
        found: dict[str, None] = {}
        for frame in frames_from_here():
            for first, last, errors in self._lines.get(frame.f_code, ()):
                if first <= frame.f_lineno <= last:
                    found.update(dict.fromkeys(errors))
        return tuple(found)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _with_inner(each)


@functools.lru_cache(maxsize=8192)
def _caught_lines(code: CodeType) -> tuple[CaughtLines, ...]:
    if dis.opmap["POP_EXCEPT"] not in code.co_code[::2]:  # the end of a handler, or of a with block
        return ()
    try:
        source = inspect.getsource(code)
        is_inside = source[0].isspace()
        # Not dedented: a text in the function may have lines without indentation.
        tree = ast.parse(f"if True:\n{source}" if is_inside else source)
    except (OSError, SyntaxError):  # no source, or a file that has changed
        return ()
    ast.increment_lineno(tree, code.co_firstlineno - (2 if is_inside else 1))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            handlers = [each for each in node.handlers if not isinstance(each.body[-1], ast.Raise)]
            errors = tuple([name for each in handlers for name in _names(each.type) if name not in _NOT_OF_TORCH])
            if errors:
                found.append(CaughtLines(node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno, errors))
    return tuple(found)


def _names(kind: ast.expr | None) -> list[str]:
    if kind is None:
        return ["BaseException"]
    if isinstance(kind, ast.Tuple):
        return [name for each in kind.elts for name in _names(each)]
    return [ast.unparse(kind).rpartition(".")[2]]
