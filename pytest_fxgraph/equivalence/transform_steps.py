"""The kinds of transforms that exist, each applied the way it wants to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

import fxcore
from pytest_fxgraph.capture.subjects import to_graph_module
from pytest_fxgraph.equivalence.equivalence_check import Runs
from pytest_fxgraph.equivalence.interpreter_call import InterpreterCall
from pytest_fxgraph.errors import SubjectError


@dataclass(frozen=True)
class Applied:
    """What one transform made."""

    graph_module: fxcore.GraphModule
    call: Callable[..., Any]  # runs it: the graph module, or an interpreter of its graph
    modified: bool | None = None  # what a pass says of itself; None where it says nothing

    def runs(self) -> Runs:
        """Tell what runs, and what holds the state."""
        return Runs(self.call if isinstance(self.call, nn.Module) else self.graph_module, self.call)


def steps_of(transform: Any) -> list[tuple[str, Any]]:
    """List the transforms with their names: one, or those of a list."""
    steps = list(transform) if isinstance(transform, (list, tuple)) else [transform]
    if not steps:
        raise SubjectError("an empty list of transforms checks nothing; hand over at least one")
    for step in steps:
        if not callable(step):
            raise SubjectError(
                f"{step!r} is no transform: expected a function of a GraphModule, a Transformer or Interpreter class, "
                "a pass, or a list of these"
            )
    return [(name_of_step(step), step) for step in steps]


def name_of_step(step: Any) -> str:
    """Name a transform as its author does."""
    return str(getattr(step, "__name__", None) or type(step).__name__)


def apply_step(step: Any, graph_module: fxcore.GraphModule) -> Applied:
    """Apply one transform to a graph module, which it may change."""
    if isinstance(step, type) and issubclass(step, fxcore.Transformer):
        return _applied(step, step(graph_module).transform(), graph_module)
    if isinstance(step, type) and issubclass(step, fxcore.Interpreter):
        return Applied(graph_module, InterpreterCall(step, graph_module))
    return _applied(step, step(graph_module), graph_module)


def _applied(step: Any, made: Any, given: fxcore.GraphModule) -> Applied:
    modified: bool | None = None
    if hasattr(made, "graph_module") and hasattr(made, "modified"):  # a PassResult, whoever defined it
        made, modified = made.graph_module, bool(made.modified)
    if made is None:
        made = given
    if isinstance(made, fxcore.GraphModule):
        return Applied(made, made, modified)
    if isinstance(made, fxcore.Graph):
        module = fxcore.GraphModule(given, made)
        return Applied(module, module, modified)
    if isinstance(made, nn.Module):
        return Applied(to_graph_module(made), made, modified)
    raise SubjectError(
        f"{name_of_step(step)} returned {type(made).__name__}; a transform returns a module, a graph, a PassResult, "
        "or None after changing the graph module it was given"
    )
