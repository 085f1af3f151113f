"""Disjoint sets that can be joined."""

from __future__ import annotations

from fxcore.errors import GraphArgumentError


class UnionFind:
    """Sets of the numbers below `n`; each is named by one of its members."""

    def __init__(self, n: int) -> None:
        """Make room for `n` numbers, none of which is in a set yet."""
        self.parent: list[int | None] = [None] * n
        self.size: list[int] = [0] * n

    def make_set(self, v: int) -> None:
        """Make a set of `v` alone."""
        self.parent[v] = v
        self.size[v] = 1

    def find(self, v: int) -> int:
        """Return the name of the set of `v`. Raises GraphArgumentError (an AssertionError) if it is in none."""
        path = []
        while (parent := self.parent[v]) != v:
            if parent is None:
                raise GraphArgumentError(f"Parent is None: {v} is in no set; call make_set({v}) first")
            path.append(v)
            v = parent
        for passed in path:
            self.parent[passed] = v
        return v

    def join(self, a: int, b: int) -> int | None:
        """Join the sets of `a` and `b`; return the name if they were one before."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return None
