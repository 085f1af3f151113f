"""Which values of a graph stand for which nodes of a pattern, as far as has been found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from typing import Any

from fxcore.matching.argument_pairing import Pair
from fxcore.matching.literals import constants_equal, slice_parts
from fxcore.node import Node
from fxcore.node_data.arguments import map_values


def is_convex(nodes: Collection[Node], leaving: Iterable[Node] | None = None) -> bool:
    """Tell whether no value leaves the set, goes through a node outside, and comes back in.

    Looks only at nodes between the first and the last of the set, since a graph's order keeps dependencies. `leaving`
    are the nodes that are read outside, where that is known.
    """
    if len(nodes) < 2:
        return True
    inside = set(nodes)
    last = max([node._sort_key for node in nodes])
    pending = []
    for node in nodes if leaving is None else leaving:
        for user in node.users:
            if user._sort_key < last and user not in inside:
                pending.append(user)
    if not pending:
        return True
    seen = set(pending)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user._sort_key < last and user not in seen:
                seen.add(user)
                pending.append(user)
    return True


_UNBOUND = object()


class Correspondence:
    """Grows node by node, upwards from a pair, and can go back to what it was before."""

    def __init__(
        self,
        are_alike: Callable[[Node, Node], bool],
        pair_arguments: Callable[[Node, Node], list[Pair] | None],
        ignores_literals: bool,
        off_limits: Container[Node] = (),
        have_readers_inside: Callable[[dict[Node, Any]], bool] = lambda nodes_map: True,
    ) -> None:
        """Begin with nothing found.

        Nodes `off_limits` stand for no operation. `have_readers_inside` tells whether nobody outside of a finished
        map reads what the pattern does not return.
        """
        self.nodes_map: dict[Node, Any] = {}
        self._off_limits = off_limits
        self._have_readers_inside = have_readers_inside
        self._are_alike = are_alike
        self._pair_arguments = pair_arguments
        self._ignores_literals = ignores_literals
        self._stands_for: dict[Node, Node] = {}

    def __len__(self) -> int:
        """Return how many nodes of the pattern were found."""
        return len(self.nodes_map)

    def get(self, expected: Node) -> Any:
        """Return what stands for a node of the pattern, None if nothing does yet."""
        return self.nodes_map.get(expected)

    def as_map(self) -> dict[Node, Any]:
        """Return from nodes of the pattern, in the order in which they were found, what stands for them."""
        return self.nodes_map.copy()

    def extend(self, expected: Node, obtained: Node, is_alike: bool = False) -> bool:
        """Take in that `obtained` stands for `expected`, with all that the two read; change nothing if it cannot.

        With `is_alike`, the two themselves are known to do the same.
        """
        size = len(self.nodes_map)
        # Pairs still to compare, the next one last: the order of the map is that of a walk from the left.
        pending: list[Pair] = [(expected, obtained)]
        while pending:
            ours, theirs = pending.pop()
            pairs = self._compare(ours, theirs, is_alike)
            if pairs is None:
                self.cut_back(size)
                return False
            is_alike = False
            pending.extend(reversed(pairs))
        return True

    def cut_back(self, size: int) -> None:
        """Forget what was taken in after the first `size` nodes."""
        while len(self.nodes_map) > size:
            _, value = self.nodes_map.popitem()
            if isinstance(value, Node):
                del self._stands_for[value]

    def compute_nodes(self) -> list[Node]:
        """Return the nodes of the graph that stand for operations of the pattern, not for its inputs or output."""
        return [node for node, ours in self._stands_for.items() if ours._op != "placeholder" and ours._op != "output"]

    def is_contained(self) -> bool:
        """Tell whether nobody outside of a match reads what the pattern does not return."""
        return self._have_readers_inside(self.nodes_map)

    def is_convex(self) -> bool:
        """Tell whether the operations found can become one node without making a cycle."""
        return is_convex(self.compute_nodes())

    def _compare(self, expected: Any, obtained: Any, is_alike: bool) -> list[Pair] | tuple[Pair, ...] | None:
        """Return what has to correspond for these two to correspond; None if they cannot."""
        if isinstance(expected, Node):
            if isinstance(obtained, Node):
                return self._compare_nodes(expected, obtained, is_alike)
            return self._bind_literal(expected, obtained)
        if isinstance(obtained, Node):
            return None
        if isinstance(expected, (list, tuple)) and isinstance(obtained, (list, tuple)):
            return list(zip(expected, obtained, strict=True)) if len(expected) == len(obtained) else None
        if isinstance(expected, slice) and isinstance(obtained, slice):
            return list(zip(slice_parts(expected), slice_parts(obtained), strict=True))
        if isinstance(expected, dict) and isinstance(obtained, dict):
            if expected.keys() != obtained.keys():
                return None
            return [(value, obtained[key]) for key, value in expected.items()]
        if constants_equal(expected, obtained):
            return ()
        # A wildcard stands for constants: not for a list, say, with a value in it.
        return () if self._ignores_literals and not nodes_in(expected) and not nodes_in(obtained) else None

    def _compare_nodes(self, expected: Node, obtained: Node, is_alike: bool) -> list[Pair] | tuple[Pair, ...] | None:
        bound = self.nodes_map.get(expected, _UNBOUND)
        if bound is not _UNBOUND:
            return () if bound is obtained else None
        if obtained in self._stands_for:
            return None
        if not is_alike and not self._are_alike(expected, obtained):
            return None
        if expected._op == "placeholder":
            pairs: list[Pair] | None = []
        elif obtained in self._off_limits:
            return None
        else:
            pairs = self._pair_arguments(expected, obtained)
        self.nodes_map[expected] = obtained
        self._stands_for[obtained] = expected
        return pairs

    def _bind_literal(self, expected: Node, obtained: Any) -> tuple[Pair, ...] | None:
        """Let a constant stand for an input of the pattern; for anything else it cannot."""
        if expected._op != "placeholder":
            return None
        bound = self.nodes_map.get(expected, _UNBOUND)
        if bound is _UNBOUND:
            self.nodes_map[expected] = obtained
            return ()
        return () if not isinstance(bound, Node) and constants_equal(bound, obtained) else None


def nodes_in(argument: Any) -> list[Node]:
    """Return the nodes that an argument refers to, in reading order."""
    found: list[Node] = []
    map_values(argument, found.append)
    return found
