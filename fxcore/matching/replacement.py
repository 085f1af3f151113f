"""Graphs that replace matches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.matching.literals import constants_equal
from fxcore.matching.match import InternalMatch
from fxcore.node import Node

Source = Callable[..., Any] | Graph | GraphModule


def graph_of(source: Source) -> Graph:
    """Return a graph itself, the graph of a GraphModule, or the trace of a module or function."""
    if isinstance(source, GraphModule):
        return source.graph
    if isinstance(source, Graph):
        return source
    return symbolic_trace(source).graph


# Returns the replacement graph for a match, and the values of its inputs.
Replacement = Callable[[InternalMatch], tuple[Graph, list[Any]]]


def replacement_of(
    source: Source | None,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None,
    original: Graph,
    pattern: Graph,
    *,
    capture_literals: bool,
) -> Replacement:
    """Return the function that makes the graph for each match.

    `callback` makes a graph for each match; otherwise `source` is traced, once or, with `capture_literals`, for each
    combination of matched constants. Raises GraphArgumentError (an AssertionError) without both.
    """
    if callback is not None:
        return lambda match: (callback(match, original, pattern), match.placeholder_nodes)
    if source is None:
        raise GraphArgumentError(
            "Must provide either a replacement GraphModule or a replacement callback: both are None"
        )
    if capture_literals:
        return _with_captured_literals(source)
    graph = graph_of(source)
    return lambda match: (graph, match.placeholder_nodes)


def _with_captured_literals(source: Source) -> Replacement:
    """Let a function take the matched constants as Python values.

    Raises GraphArgumentError (an AssertionError) if `source` is traced already, or a module.
    """
    if isinstance(source, (Graph, nn.Module)):
        raise GraphArgumentError(
            f"capture_literals=True needs a function as the replacement, got a {type(source).__name__}: the "
            "function is traced with the constants that were matched as its arguments"
        )
    traced: list[tuple[dict[int, Any], Graph]] = []

    def for_match(match: InternalMatch) -> tuple[Graph, list[Any]]:
        values = match.placeholder_nodes
        literals = {index: value for index, value in enumerate(values) if not isinstance(value, Node)}
        graph = next((graph for known, graph in traced if constants_equal(known, literals)), None)
        if graph is None:
            graph = graph_of(_WithLiterals(source, literals))
            traced.append((literals, graph))
        return graph, [value for index, value in enumerate(values) if index not in literals]

    return for_match


class _WithLiterals:
    """A function with some fixed positional arguments. Its signature has the other parameters only."""

    def __init__(self, function: Callable[..., Any], literals: dict[int, Any]) -> None:
        self._function = function
        self._literals = literals
        signature = inspect.signature(function)
        self.__name__ = getattr(function, "__name__", "replacement")
        self.__signature__ = signature.replace(
            parameters=[each for index, each in enumerate(signature.parameters.values()) if index not in literals]
        )

    def __call__(self, *values: Any) -> Any:
        remaining = iter(values)
        count = len(values) + len(self._literals)
        return self._function(
            *[self._literals[index] if index in self._literals else next(remaining) for index in range(count)]
        )
