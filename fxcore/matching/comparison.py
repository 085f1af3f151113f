"""A mapping from nodes of a pattern to values of a graph, and the comparison that it must pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import Any

from fxcore.matching.argument_pairing import Pair
from fxcore.matching.literals import constants_equal, slice_parts
from fxcore.node import Node
from fxcore.node_data.arguments import PLAIN, map_values


def is_convex(nodes: Collection[Node]) -> bool:
    """Return whether no path leaves the set through a node outside and returns to it.

    Only nodes between the first and the last of the set are visited, since a graph's order keeps dependencies.
    """
    if len(nodes) < 2:
        return True
    inside = set(nodes)
    last = max([node._sort_key for node in nodes])
    pending = []
    for node in nodes:
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


class PartialMatch:
    """A mapping from nodes of a pattern to values of a graph. It grows anchor by anchor and can shrink again."""

    def __init__(
        self,
        are_alike: Callable[[Node, Node], bool],
        pair_arguments: Callable[[Node, Node], list[Pair] | None],
        ignores_literals: bool,
        off_limits: Container[Node] = (),
    ) -> None:
        """Start with an empty mapping; `off_limits` are nodes that match no operation."""
        # Ordered by a walk up from the first anchor, first arguments first, then from the second anchor.
        self.nodes_map: dict[Node, Any] = {}
        self._stands_for: dict[Node, Node] = {}
        self._are_alike = are_alike
        self._pair_arguments = pair_arguments
        self._ignores_literals = ignores_literals
        self._off_limits = off_limits

    def extend(self, anchor: Node, obtained: Node) -> bool:
        """Map `anchor` to `obtained`, a node with the same operator, and map all their inputs.

        Change nothing if that fails.
        """
        nodes_map, stands_for = self.nodes_map, self._stands_for
        size = len(nodes_map)
        pending: list[Pair] = [(anchor, obtained)]  # a stack: the next pair is the last
        while pending:
            expected, obtained = pending.pop()
            if not isinstance(expected, Node):
                if expected is obtained and type(expected) in PLAIN:
                    continue
                pairs = self._compare_constants(expected, obtained)
            elif expected in nodes_map:
                bound = nodes_map[expected]
                pairs = () if bound is obtained or constants_equal(bound, obtained) else None
            elif not isinstance(obtained, Node):
                pairs = self._bind_constant(expected, obtained)
            elif obtained in stands_for or not (expected is anchor or self._are_alike(expected, obtained)):
                break
            else:
                nodes_map[expected] = obtained
                stands_for[obtained] = expected
                if expected._op == "placeholder":
                    continue
                if obtained in self._off_limits:
                    break
                pairs = self._pair_arguments(expected, obtained)
            if pairs is None:
                break
            pending += pairs[::-1]
        else:
            return True
        self.cut_back(size)
        return False

    def cut_back(self, size: int) -> None:
        """Remove all but the first `size` nodes from the mapping."""
        if not size:
            self.nodes_map.clear()
            self._stands_for.clear()
        while len(self.nodes_map) > size:
            _, value = self.nodes_map.popitem()
            if isinstance(value, Node):
                del self._stands_for[value]

    def operations(self) -> list[Node]:
        """Return the graph's nodes that match operations of the pattern, without its inputs and output."""
        return [node for node, ours in self._stands_for.items() if ours._op != "placeholder" and ours._op != "output"]

    def _compare_constants(self, expected: Any, obtained: Any) -> list[Pair] | tuple[()] | None:
        parts = pair_parts(expected, obtained)
        if parts is not None:
            return parts
        return () if are_same_constants(expected, obtained, self._ignores_literals) else None

    def _bind_constant(self, expected: Node, obtained: Any) -> tuple[()] | None:
        """Map an input of the pattern to a constant. Return None for any other node of the pattern."""
        if expected._op != "placeholder":
            return None
        self.nodes_map[expected] = obtained
        return ()


def pair_parts(expected: Any, obtained: Any) -> list[Pair] | None:
    """Pair the parts of two containers; None if they are no containers or have different forms."""
    if type(expected) in PLAIN:
        return None
    if isinstance(expected, (list, tuple)) and isinstance(obtained, (list, tuple)) and len(expected) == len(obtained):
        return list(zip(expected, obtained, strict=True))
    if isinstance(expected, slice) and isinstance(obtained, slice):
        return list(zip(slice_parts(expected), slice_parts(obtained), strict=True))
    if isinstance(expected, dict) and isinstance(obtained, dict) and expected.keys() == obtained.keys():
        return [(value, obtained[key]) for key, value in expected.items()]
    return None


def are_same_constants(expected: Any, obtained: Any, ignores_literals: bool) -> bool:
    """Return whether two constants match. If literals are ignored, constants without nodes match each other."""
    if constants_equal(expected, obtained):
        return True
    # An ignored literal matches constants only: no list with a value in it, and no list of another length.
    are_containers = any(isinstance(expected, kind) and isinstance(obtained, kind) for kind in _CONTAINERS)
    return ignores_literals and not are_containers and not nodes_in(expected) and not nodes_in(obtained)


# Containers whose parts are compared one by one.
_CONTAINERS: tuple[Any, ...] = ((list, tuple), dict, slice)


def nodes_in(argument: Any) -> list[Node]:
    """Return the nodes that an argument refers to, in reading order."""
    found: list[Node] = []
    map_values(argument, found.append)
    return found
