"""Statements that run on the example's values, so that a diagnosis goes on behind a statement that cannot be traced.

A trace function of Python (`sys.settrace`) sees each line of the traced code. Before a chosen statement it puts the
example's values in the place of proxies, and behind it the proxies back. Tensors that the statement assigned become
proxies of contents.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections import Counter
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxcore.guided.arguments import holds_proxies, value_of
from fxcore.guided.proxies import proxy_of
from fxcore.tracing import module_hooks

Place = tuple[str, int]  # a file and a line
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


class _Running(NamedTuple):
    """A chosen statement that runs in a frame."""

    lines: range
    suspension: AbstractContextManager[None]
    proxies: dict[str, tuple[Any, Any]]  # by variable: the proxies, and the values in their place
    before: dict[str, Any]


class ValueStatements:
    """Runs the statements at some places on the example's values while a with block runs, in its thread."""

    def __init__(self, tracer: Any, places: list[Place]) -> None:
        self._tracer = tracer
        self._lines = {place: statement_lines(*place) for place in places}
        self._running: dict[FrameType, _Running] = {}
        self.runs: Counter[Place] = Counter()

    def __enter__(self) -> None:
        self._outer = sys.gettrace()
        if self._lines:
            sys.settrace(self._on_call)

    def __exit__(self, *error: object) -> None:
        if self._lines:
            sys.settrace(self._outer)
        for frame in list(self._running):
            self._leave(frame, is_over=True)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._on_event if self._places_in(frame.f_code) else None

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> Any:
        running = self._running.get(frame)
        if running is not None and (event == "return" or (event == "line" and frame.f_lineno not in running.lines)):
            self._leave(frame, is_over=event == "return")
            running = None
        if event == "line" and running is None:
            for place in self._places_in(frame.f_code):
                if frame.f_lineno in self._lines[place]:
                    self.runs[place] += 1
                    self._begin(frame, self._lines[place])
                    break
        return self._on_event

    def _places_in(self, code: CodeType) -> list[Place]:
        return [place for place in self._lines if place[0] == code.co_filename and _has_line(code, self._lines[place])]

    def _begin(self, frame: FrameType, lines: range) -> None:
        names = frame.f_locals  # each read of the attribute gives the values anew
        proxies = {name: (value, value_of(value)) for name, value in names.items() if holds_proxies(value)}
        for name, (_, value) in proxies.items():
            names[name] = value
        suspension = module_hooks.suspended()
        suspension.__enter__()
        self._running[frame] = _Running(lines, suspension, proxies, dict(names))

    def _leave(self, frame: FrameType, *, is_over: bool) -> None:
        running = self._running.pop(frame)
        running.suspension.__exit__(None, None, None)
        if is_over:
            return
        names = frame.f_locals
        for name, value in list(names.items()):
            if name in running.proxies and value is running.proxies[name][1]:
                names[name] = running.proxies[name][0]
            elif value is not running.before.get(name):
                names[name] = pytree.tree_map_only(torch.Tensor, self._proxy, value)

    def _proxy(self, tensor: torch.Tensor) -> Any:
        if type(tensor) is not torch.Tensor:
            return tensor
        node = self._tracer.record_without_running("call_function", _untraced_statement, (), {})
        return proxy_of(self._tracer, node, tensor, False, True)


def _untraced_statement() -> None:
    """Stand for the result of a statement that cannot be traced, in the graph of a diagnosis."""


def _has_line(code: CodeType, lines: range) -> bool:
    return any(line in lines for _, _, line in code.co_lines() if line is not None)


@functools.lru_cache(maxsize=256)
def statement_lines(file: str, line: int) -> range:
    """Return the lines of the innermost statement at a line; of a statement with a body, the lines of its head."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return range(line, line + 1)
    found = range(line, line + 1)
    for node in ast.walk(tree):  # outer statements come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            bodies = [each for name in _BODIES for each in getattr(node, name, ())]
            end = min((each.lineno for each in bodies if hasattr(each, "lineno")), default=0)
            lines = range(node.lineno, end if bodies else (node.end_lineno or line) + 1)
            found = lines if line in lines else found
    return found
