"""Which values of a graph may share storage: sets that are joined as the graph is read, in nearly linear time."""

from __future__ import annotations


class SharedStorage:
    """Positions of nodes in sets; each set is named by its first position."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def first(self, position: int) -> int:
        """Give the first node that may share storage with the one at a position."""
        parent = self._parent
        while parent[position] != position:
            parent[position] = parent[parent[position]]
            position = parent[position]
        return position

    def join(self, position: int, other: int) -> None:
        """Note that two nodes may share storage."""
        one, two = self.first(position), self.first(other)
        # The earlier one names the set, so that the name stays when more is joined.
        if one < two:
            self._parent[two] = one
        else:
            self._parent[one] = two
