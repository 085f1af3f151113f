"""Hashes of nodes and what surrounds them, as small numbers: equal ones mean equal structure, without collisions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pytest_fxgraph.compare.graph_index import GraphIndex


class NodeHashes:
    """Gives each distinct description a number of its own; both graphs of a comparison share one table."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, description: Hashable) -> int:
        """Return the number of a description, a new one if it was never seen."""
        return self._numbers.setdefault(description, len(self._numbers))


def input_hashes(graph: GraphIndex, marks: Sequence[Hashable], table: NodeHashes) -> list[int]:
    """Number each node by its mark and the hashes of what it reads."""
    hashes: list[int] = []
    for position, inputs in enumerate(graph.inputs):
        # Only what stands before a node can be its input; anything else is a broken document and gets no hash.
        read = tuple(hashes[other] if other < position else -1 for other in inputs)
        hashes.append(table.number(("reads", marks[position], read)))
    return hashes


def user_hashes(graph: GraphIndex, marks: Sequence[Hashable], table: NodeHashes) -> list[int]:
    """Number each node by its mark and the hashes of who reads it, at which position."""
    hashes = [-1] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        readers = [(hashes[reader], place) for reader, place in graph.users[position]]
        hashes[position] = table.number(("read by", marks[position], *sorted(readers)))
    return hashes
