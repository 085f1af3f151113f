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


class Replacement:
    """The replacement graph for each match, with the values of its inputs."""

    def __init__(self, source: Source) -> None:
        """Replace every match by `source`: a graph, a module, or a function that is traced once."""
        self.graph = graph_of(source)

    def for_match(self, match: InternalMatch) -> tuple[Graph, list[Any]]:
        """Return the replacement graph for a match and the values of its inputs."""
        return self.graph, match.placeholder_nodes


class LiteralReplacement(Replacement):
    """A replacing function that takes the matched constants and is traced for each combination of them."""

    def __init__(self, source: Source) -> None:
        """Replace matches by the trace of `source`, a function, with their constants.

        Raises GraphArgumentError (an AssertionError) if `source` is traced already, or a module.
        """
        if isinstance(source, (Graph, nn.Module)):
            raise GraphArgumentError(
                f"capture_literals=True needs a function as the replacement, got a {type(source).__name__}: the "
                "function is traced with the constants that were matched as its arguments"
            )
        self._source = source
        self._traced: list[tuple[dict[int, Any], Graph]] = []

    def for_match(self, match: InternalMatch) -> tuple[Graph, list[Any]]:
        """Return the replacement graph and its input values, without constants."""
        values = match.placeholder_nodes
        literals = {index: value for index, value in enumerate(values) if not isinstance(value, Node)}
        graph = next((graph for known, graph in self._traced if constants_equal(known, literals)), None)
        if graph is None:
            graph = graph_of(_WithLiterals(self._source, literals))
            self._traced.append((literals, graph))
        return graph, [value for index, value in enumerate(values) if index not in literals]


class CallbackReplacement(Replacement):
    """A user's function that makes the graph for each match."""

    def __init__(
        self, callback: Callable[[InternalMatch, Graph, Graph], Graph], original: Graph, pattern: Graph
    ) -> None:
        """Call `callback` with each match, the rewritten graph and the pattern's graph."""
        self._callback = callback
        self._original = original
        self._pattern = pattern

    def for_match(self, match: InternalMatch) -> tuple[Graph, list[Any]]:
        """Return the replacement graph for a match and the values of its inputs."""
        return self._callback(match, self._original, self._pattern), match.placeholder_nodes


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
