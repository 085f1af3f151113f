"""Numbers that tell sub-graphs apart: equal numbers in one table mean equal structure, without chance collisions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pytest_fxgraph.compare.graph_index import TermGraph


class DigestTable:
    """Hands out one number for each distinct description; both graphs of a comparison share one table."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, description: Hashable) -> int:
        """Give the number of a description, a new one if it was never seen."""
        return self._numbers.setdefault(description, len(self._numbers))


def input_digests(graph: TermGraph, marks: Sequence[Hashable], table: DigestTable) -> list[int]:
    """Number each node by its mark and the digests of what it reads."""
    digests: list[int] = []
    for position, inputs in enumerate(graph.inputs):
        # Only what stands before a node can be its input; anything else is a broken document and gets no digest.
        read = tuple(digests[other] if other < position else -1 for other in inputs)
        digests.append(table.number(("reads", marks[position], read)))
    return digests


def user_digests(graph: TermGraph, marks: Sequence[Hashable], table: DigestTable) -> list[int]:
    """Number each node by its mark and the digests of who reads it, at which position."""
    digests = [-1] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        readers = [(digests[reader], place) for reader, place in graph.users[position]]
        digests[position] = table.number(("read by", marks[position], *sorted(readers)))
    return digests
