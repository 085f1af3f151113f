"""Places in the user's code, as messages show them, and the part of a place that a golden holds."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import os
import re
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.captures.tracing_failure import short_path

# After a break Dynamo goes on in a function of its own, named after the user's function.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+\Z")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_LONGEST_STATEMENT = 200
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|\Z)|\A\d+(?=\.|\Z)")


@dataclass(frozen=True)
class Place:
    """A line of the user's code, and the module of the model that it belongs to."""

    file: str
    line: int
    function: str
    source: str
    module: str = ""  # "encoder.blocks.*" for the class of several modules; "" for the model itself, or for no module

    @property
    def text(self) -> str:
        """The part that stays the same when lines move: `encoder.forward: x = x.item()`."""
        return f"{self.qualified_function}: {self.source}"

    @property
    def qualified_function(self) -> str:
        """The function with the path of its module: `encoder.forward`."""
        return f"{self.module}.{self.function}" if self.module else self.function

    @property
    def line_of_source(self) -> str:
        """The line as reports show lines of a model: `model.py:12: x = x.item()`; "" for an unknown file."""
        return f"{short_path(self.file)}:{self.line}: {self.source}" if self.file else ""

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}, in {self.function}: {self.source}"


class UserCode:
    """The code of one model, to find places in."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._paths: dict[CodeType, list[str]] = {}
        if isinstance(model, nn.Module):
            for path, module in model.named_modules():
                for code in _codes_of(type(module)):
                    self._paths.setdefault(code, []).append(path)

    def place(self, file: str, line: int, function: str) -> Place:
        """Return the place of a line, with the module of its function."""
        name = function_name(function)
        lines = linecache.getlines(file)
        source = linecache.getline(file, line).strip() if is_of_torch(file) else statement_at(lines, line)
        return Place(file, line, name, source, self._module(file, line, name))

    @property
    def forward(self) -> Place:
        """The place of the model's own function."""
        function = type(self._model).forward if isinstance(self._model, nn.Module) else self._model
        function = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(function, "__code__", None)
        if code is None:
            return Place("", 0, str(getattr(function, "__name__", "forward")), "")
        return self.place(code.co_filename, code.co_firstlineno, code.co_name)

    def has(self, place: Place) -> bool:
        """Return whether a place is in a function of one of the model's modules."""
        return any(code.co_filename == place.file and code.co_name == place.function for code in self._paths)

    def _module(self, file: str, line: int, function: str) -> str:
        own = [code for code in self._paths if (code.co_filename, code.co_name) == (file, function)]
        begun = [code for code in own if code.co_firstlineno <= line]
        return _common_path(self._paths[max(begun, key=lambda code: code.co_firstlineno)]) if begun else ""


def statement_at(lines: Sequence[str], line: int) -> str:
    """Return the statement around a line: on one line, without comments.

    A statement with a body ends before the body. The line alone is returned if it belongs to no statement, if the
    statement is longer than 200 characters, or if Python cannot parse the file.
    """
    if not 0 < line <= len(lines):
        return ""
    first, last = _span(lines, line)
    joined = _joined("".join(lines[first - 1 : last]))
    return joined if joined and len(joined) <= _LONGEST_STATEMENT else lines[line - 1].strip()


def in_module(frames: Sequence[Place]) -> Place:
    """Return the innermost place. A place without a module gets the module that called its function."""
    module = next((frame.module for frame in reversed(frames) if frame.module), "")
    return frames[-1] if frames[-1].module or not module else replace(frames[-1], module=module)


def is_of_torch(file: str) -> bool:
    """Return whether a file belongs to torch."""
    return os.path.abspath(file).startswith(_TORCH)


def function_name(name: str) -> str:
    """Return the name of the user's function, also for a function that Dynamo made from it."""
    resumed = _RESUMED.match(name)
    return name if resumed is None else function_name(resumed[1])


def _span(lines: Sequence[str], line: int) -> tuple[int, int]:
    first, last = line, line
    for start, end in _statements("".join(lines)):
        if start <= line <= end and (end - start <= last - first or first == last == line):
            first, last = start, end
    return first, last


@lru_cache(maxsize=8)
def _statements(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and last line of every statement of several lines; a statement ends before its body."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            heads = [getattr(node, name) for name in ("test", "iter", "subject") if hasattr(node, name)]
            heads += [item.optional_vars or item.context_expr for item in getattr(node, "items", ())]
            end = max((head.end_lineno or 0 for head in heads), default=node.lineno) if body else node.end_lineno or 0
            if end > node.lineno:
                spans.append((node.lineno, end))
    return tuple(spans)


def _joined(text: str) -> str:
    """Return a statement on one line, without comments, line ends, and a trailing comma before a closing bracket."""
    lines = textwrap.dedent(text).splitlines()
    parts: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, SyntaxError):  # the head of a statement, without its body
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            if token.type not in _NO_CODE:
                parts.append(token)
    joined, row, column = "", 1, 0
    for number, token in enumerate(parts):
        if token.start[0] != row:
            row, column = token.start
            is_closing = token.string in (*")]}",)
            if is_closing and parts[number - 1].string == "," and not _is_tuple(parts[:number]):
                joined = joined.removesuffix(",")
            joined += "" if not joined or joined[-1] in "([{" or is_closing else " "
        # Releases of Python give different token texts for braces in f-strings. The line itself is the same.
        between = [*lines[row - 1 : token.end[0] - 1], lines[token.end[0] - 1][: token.end[1]]]
        joined += " ".join(each[column:] if each is between[0] else each.strip() for each in between)
        row, column = token.end
    return joined.strip()


def _is_tuple(parts: Sequence[tokenize.TokenInfo]) -> bool:
    """Return whether the comma at the end makes a tuple of one item: `(x,)` and not `f(x,)`."""
    depth, commas = 0, 0
    for number in range(len(parts) - 1, -1, -1):
        text = parts[number].string
        commas += text == "," and depth == 0
        depth += (text in (*")]}",)) - (text in (*"([{",))
        if depth < 0:
            before = parts[number - 1] if number else None
            is_call = before is not None and (before.string in ")]" or before.type == tokenize.NAME)
            return text != "{" and commas == 1 and not (text == "(" and is_call)
    return False


def _codes_of(cls: type) -> Iterator[CodeType]:
    for base in cls.__mro__:
        if base is nn.Module:
            return
        for value in vars(base).values():
            code = getattr(getattr(value, "__func__", value), "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _common_path(paths: list[str]) -> str:
    """Return the path of one module, or a pattern for the paths of several modules: `blocks.*`."""
    patterns = dict.fromkeys(paths if len(paths) == 1 else [_NUMBER.sub("*", path) for path in paths])
    return ", ".join(patterns)
