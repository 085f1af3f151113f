"""Nodes of a graph that are worth comparing with a node of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from operator import attrgetter
from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node

_position = attrgetter("_sort_key")


class Anchor:
    """A node of a pattern where the comparison starts. It goes upwards through all nodes that the anchor depends on."""

    def __init__(self, node: Node) -> None:
        self.node = node
        # Each node above -> the next node on a way down to the anchor.
        self._reader: dict[Node, Node] = {}
        pending = [node]
        while pending:
            reader = pending.pop()
            for value in reader._input_nodes:
                if value not in self._reader:
                    self._reader[value] = reader
                    pending.append(value)

    def above(self) -> list[Node]:
        """Return the nodes that the anchor depends on, ordered from the anchor upwards for a chain."""
        return list(self._reader)

    def last_of(self, nodes: Collection[Node]) -> list[Node]:
        """Return the members of `nodes` above the anchor whose way down passes no other member."""
        return [node for node in self._reader if node in nodes and self._reader[node] not in nodes]

    def below(self, start: Node, found: Iterable[Node], are_alike: Callable[[Node, Node], bool]) -> list[Node]:
        """Return the possible anchors in the graph, in order.

        `found` has every node of the graph that can be `start`.
        """
        here: Iterable[Node] = found
        while start is not self.node:
            start = self._reader[start]
            readers = [reader for node in here for reader in node.users]
            here = dict.fromkeys([reader for reader in readers if are_alike(start, reader)])
        return sorted(here, key=_position)


class Candidates:
    """Nodes to try in order. It skips claimed nodes at the front."""

    def __init__(self, nodes: list[Node], claimed: Container[Node]) -> None:
        self._nodes = nodes
        self._claimed = claimed
        self._first = 0

    def __iter__(self) -> Iterator[Node]:
        nodes = self._nodes
        # A claim is final, so the next walk starts after the claimed nodes.
        while self._first < len(nodes) and nodes[self._first] in self._claimed:
            self._first += 1
        for index in range(self._first, len(nodes)):
            yield nodes[index]


class OperatorLookup:
    """Look-up of the nodes that match a node of a pattern, by the graph's index of operators."""

    def __init__(
        self, graph: Graph, are_alike: Callable[[Node, Node], bool], by_path: bool, placeholders: bool
    ) -> None:
        self._graph = graph
        self._are_alike = are_alike
        self._by_path = by_path
        self._placeholders = placeholders
        self._found: dict[tuple[str, Any], list[Node]] = {}

    def find(self, expected: Node) -> list[Node]:
        """Return the nodes that are like `expected`, in no order."""
        key = expected._op, expected._target
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(expected)
        return found

    def _look_up(self, expected: Node) -> list[Node]:
        op = expected._op
        if op == "placeholder" and not self._placeholders:
            return [node for node in self._graph.nodes if node._op != "output"]
        if op in ("call_function", "call_method") or (op == "call_module" and self._by_path):
            return self._graph.find_nodes(op=op, target=expected._target, sort=False)
        nodes = self._graph.find_nodes(op=op, sort=False)
        return nodes if op in ("placeholder", "output") else [node for node in nodes if self._are_alike(expected, node)]
