"""Small programs, each traced with an example: the graph is right on other inputs too, or the trace is refused."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch

import fxcore
from benchmarks.reach.values import difference
from fxcore.errors import FxError, GuardError
from fxcore.guided.inputs import copied_example

EXAMPLE = torch.tensor([[0.1, 0.9, 0.4], [0.7, 0.2, 0.6]])
SECOND = torch.linspace(0.05, 0.95, 15).reshape(5, 3)


@dataclass(frozen=True)
class Program:
    """A function or a module, its example, other inputs, and what becomes of the trace.

    A *traced* program is right on the other inputs. A *guarded* one is right there or its guards refuse them. A
    *refused* one is an FxError with `words` and with the program's line.
    """

    call: Any
    outcome: Literal["traced", "guarded", "refused"]
    words: str = ""
    example: tuple[Any, ...] = (EXAMPLE,)
    second: tuple[Any, ...] = (SECOND,)

    @property
    def name(self) -> str:
        return getattr(self.call, "__name__", type(self.call).__name__)


class Programs(list[Program]):
    """A table of programs. Its methods decorate functions."""

    def traced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.append(Program(function, "traced"))
        return function

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.append(Program(function, "guarded"))
        return function

    def refused(self, words: str) -> Callable[..., Any]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.append(Program(function, "refused", words))
            return function

        return add

    def parametrized(self) -> Any:
        return pytest.mark.parametrize("program", self, ids=lambda program: program.name)


def check(program: Program) -> None:
    """Trace a program and compare it with eager; raise AssertionError if it does not do as the table says."""
    torch.manual_seed(1)
    if program.outcome == "refused":
        with pytest.raises(FxError, match=re.escape(program.words)) as refusal:
            _traced(program)
        assert _has_line_of(program.call, str(refusal.value)), str(refusal.value)
        return
    graph_module = _traced(program)
    _compare(program, graph_module, program.example)
    try:
        _compare(program, graph_module, program.second)
    except GuardError:
        assert program.outcome == "guarded"


def _traced(program: Program) -> Any:
    return fxcore.symbolic_trace(program.call, example_inputs=copied_example(program.example), enforce_guards=True)


def _compare(program: Program, graph_module: Any, inputs: tuple[Any, ...]) -> None:
    torch.manual_seed(2)
    expected = program.call(*copied_example(inputs))
    torch.manual_seed(2)
    obtained = graph_module(*copied_example(inputs))
    assert difference(expected, obtained) is None


def _has_line_of(call: Any, message: str) -> bool:
    """Return whether a message names a line of the program's source."""
    source = call if inspect.isfunction(call) else type(call)
    lines, first = inspect.getsourcelines(source)
    found = re.search(rf"{re.escape(inspect.getsourcefile(source) or '')}:(\d+)", message)
    return found is not None and first <= int(found[1]) < first + len(lines)
