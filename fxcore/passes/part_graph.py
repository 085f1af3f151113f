"""A graph that grows from nodes of another graph: a part of that graph, or the graph that calls its parts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fxcore.graph import Graph
from fxcore.node import Node


class PartGraph:
    """A graph of copied nodes. A value from outside becomes an input at its first use."""

    reads_attributes: ClassVar[bool] = False

    def __init__(self) -> None:
        """Start empty."""
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}  # node of the whole graph -> its copy, or its input, here

    @property
    def inputs_from_outside(self) -> list[Node]:
        """The values of the whole graph that are inputs here, in order."""
        return [value for value, made in self.environment.items() if made.op == "placeholder"]

    def value_of(self, value: Node) -> Node:
        """Return the node here for a value of the whole graph."""
        if value not in self.environment:
            if self.reads_attributes and value.op == "get_attr":
                self.add_read(value, str(value.target))
            else:
                self.add_input(value, value.name)
        return self.environment[value]

    def add_input(self, value: Node, name: str, default: tuple[Any, ...] = ()) -> None:
        """Add an input for a value from outside."""
        self._note(value, self.graph.create_node("placeholder", name, default, type_expr=value.type))

    def add_read(self, value: Node, path: str) -> None:
        """Add the reading of an attribute."""
        self._note(value, self.graph.get_attr(path, type_expr=value.type))

    def _note(self, value: Node, made: Node) -> None:
        made.meta = value.meta.copy()
        self.environment[value] = made

    def copy(self, node: Node) -> Node:
        """Copy a node."""
        copied = self.environment[node] = self.graph.node_copy(node, self.value_of)
        return copied

    def finish(self, outputs: Iterable[Node], *, always_tuple: bool = False) -> bool:
        """Return these values: one as it is, more as a tuple. Return whether they are a tuple."""
        results = tuple([self.environment[node] for node in outputs])
        is_tuple = always_tuple or len(results) != 1
        self.graph.output(results if is_tuple else results[0])
        return is_tuple

    def call_part(self, path: str, inputs: Iterable[Node], outputs: Sequence[Node], *, is_tuple: bool) -> Node:
        """Call the module of a part, which takes `inputs` and returns `outputs` of the whole graph."""
        call = self.graph.call_module(path, tuple([self.value_of(value) for value in inputs]))
        for index, output in enumerate(outputs):
            self.environment[output] = self.graph.call_function(operator.getitem, (call, index)) if is_tuple else call
        return call


class ReadingPart(PartGraph):
    """A part that reads attributes itself. Parameters and buffers are no inputs."""

    reads_attributes: ClassVar[bool] = True
