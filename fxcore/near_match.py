"""How far a place in a graph is from being a match of a pattern: a comparison that does not stop at a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fxcore.argument_pairs import Pair, pair_as_written
from fxcore.convexity import is_convex
from fxcore.correspondence import nodes_in
from fxcore.literals import same_literal, slice_parts
from fxcore.match_obstacle import Obstacle, another_operation, call_words, other_arguments, other_literal
from fxcore.module_likeness import stand_for_one_each
from fxcore.node import Node

# Past this many reasons nobody reads on, and the place is no near one.
_MOST_OBSTACLES = 8


class ComparedPattern(Protocol):
    """What a comparison asks of the matcher."""

    pattern_anchors: list[Node]
    pattern_returning_nodes: list[Node]
    ignore_literals: bool
    compares_modules_by_path: bool
    pair_arguments: Callable[[Node, Node], list[Pair] | None]

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool: ...

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool: ...


class NearMatch:
    """One place held against a pattern."""

    def __init__(self, matcher: ComparedPattern, claimed: Mapping[Node, Node], wanted_name: str) -> None:
        """Compare with the matcher's pattern; `claimed` maps nodes that earlier matches took to those matches' last."""
        self._matcher = matcher
        self._claimed = claimed
        self._wanted_name = wanted_name
        self._stands_for: dict[Node, Node] = {}
        self._seen: set[Node] = set()
        self.nodes_map: dict[Node, Any] = {}
        self.obstacles: list[Obstacle] = []
        self.agreed = 0  # operations of the pattern that are there

    def compare(self, expected: Node, obtained: Node) -> None:
        """Hold a node with all that it reads against a node of the pattern; obstacles are written down."""
        pending: list[tuple[Any, Any, Node, Node]] = [(expected, obtained, expected, obtained)]
        while pending and len(self.obstacles) < _MOST_OBSTACLES:
            ours, theirs, reader, obtained_reader = pending.pop()
            if isinstance(ours, Node) and isinstance(theirs, Node):
                pairs = self._compare_nodes(ours, theirs, reader, obtained_reader)
                pending += [(one, other, ours, theirs) for one, other in reversed(pairs)]
            else:
                parts = self._compare_arguments(ours, theirs, reader, obtained_reader)
                pending += [(one, other, reader, obtained_reader) for one, other in reversed(parts)]

    def finish(self) -> None:
        """Once all last nodes were compared and agreed, look at what surrounds the place."""
        if self.obstacles:
            return
        self._look_for_readers_outside()
        nodes = [node for node, ours in self._stands_for.items() if ours.op not in ("placeholder", "output")]
        last = self._matcher.pattern_anchors[-1]
        found = self.nodes_map.get(last)
        place = found if isinstance(found, Node) else None
        if not self.obstacles and not is_convex(nodes):
            words = "what it computes is read outside, and the result of that is read here again: it cannot become one"
            self.obstacles.append(Obstacle("cycle", last, place, words))
        if not self._matcher.compares_modules_by_path and not stand_for_one_each(self.nodes_map):
            words = "the pattern calls one module more than once, and here these are several modules"
            self.obstacles.append(Obstacle("module", last, place, words))
        if not self.obstacles and not self._matcher._is_contained(self.nodes_map):
            self.obstacles.append(Obstacle("user", last, place, "the matcher does not take it for self-contained"))

    def _compare_nodes(self, expected: Node, obtained: Node, reader: Node, obtained_reader: Node) -> list[Pair]:
        if expected in self._seen or obtained in self._stands_for:
            self._compare_known(expected, obtained, reader, obtained_reader)
            return []
        self._seen.add(expected)
        if expected.op == "placeholder" and self._are_alike(expected, obtained):
            self._bind(expected, obtained)
            return []
        if not self._are_alike(expected, obtained):
            self.obstacles.append(another_operation(expected, obtained))
            # What lies above tells how near the place is, where the two are called alike.
            is_call = expected.op.startswith("call") and obtained.op.startswith("call")
            return pair_as_written(expected, obtained) or [] if is_call else []
        self.agreed += 1
        self._bind(expected, obtained)
        if obtained in self._claimed:
            words = f"{obtained.name} is part of the match at {self._claimed[obtained].name}, which comes first"
            self.obstacles.append(Obstacle("claimed", expected, obtained, words))
        pairs = self._matcher.pair_arguments(expected, obtained)
        if pairs is None:
            self.obstacles.append(other_arguments(expected, obtained))
        return pairs or []

    def _are_alike(self, expected: Node, obtained: Node) -> bool:
        name = self._wanted_name if expected in self._matcher.pattern_anchors else ""
        return self._matcher._nodes_are_equal(expected, obtained, name)

    def _bind(self, expected: Node, obtained: Node) -> None:
        self.nodes_map[expected] = obtained
        self._stands_for[obtained] = expected

    def _compare_known(self, expected: Node, obtained: Node, reader: Node, obtained_reader: Node) -> None:
        if expected in self._seen and expected not in self.nodes_map:
            return  # its obstacle is written down already
        bound = self.nodes_map.get(expected)
        if bound is obtained:
            return
        if isinstance(bound, Node):
            words = f"the pattern reads {expected.name} twice, and here these are two values, {bound} and {obtained}"
        elif expected in self.nodes_map:
            words = f"{expected.name} stands for the constant {bound!r} already, and here for {obtained}"
        else:
            other = self._stands_for[obtained]
            words = f"{obtained.name} would stand for both {other.name} and {expected.name} of the pattern"
        self.obstacles.append(Obstacle("wiring", reader, obtained_reader, words))

    def _compare_arguments(self, expected: Any, obtained: Any, reader: Node, obtained_reader: Node) -> list[Pair]:
        if isinstance(expected, Node) and expected.op == "placeholder" and not isinstance(obtained, Node):
            self._bind_literal(expected, obtained, reader, obtained_reader)
            return []
        parts = _parts_of(expected, obtained)
        if parts is not None:
            return parts
        if isinstance(expected, Node) or isinstance(obtained, Node) or not self._same_constants(expected, obtained):
            self.obstacles.append(other_literal(reader, obtained_reader, expected, obtained))
        return []

    def _same_constants(self, expected: Any, obtained: Any) -> bool:
        if same_literal(expected, obtained):
            return True
        return self._matcher.ignore_literals and not nodes_in(expected) and not nodes_in(obtained)

    def _bind_literal(self, expected: Node, obtained: Any, reader: Node, obtained_reader: Node) -> None:
        if expected in self.nodes_map:
            bound = self.nodes_map[expected]
            if isinstance(bound, Node) or not same_literal(bound, obtained):
                words = f"{expected.name} stands for {bound} already, and here for the constant {obtained!r}"
                self.obstacles.append(Obstacle("wiring", reader, obtained_reader, words))
            return
        self._seen.add(expected)
        self.nodes_map[expected] = obtained

    def _look_for_readers_outside(self) -> None:
        inside = {node for node, ours in self._stands_for.items() if ours.op != "placeholder"}
        for ours, node in self.nodes_map.items():
            if ours.op == "placeholder" or ours in self._matcher.pattern_returning_nodes or not isinstance(node, Node):
                continue
            outside = [user for user in node.users if user not in inside]
            if outside:
                names = ", ".join(user.name for user in outside[:3]) + (" and others" if len(outside) > 3 else "")
                words = (
                    f"{node.name}, which is {call_words(ours)} of the pattern, is also read by {names} outside of the "
                    "match; return it from the pattern and the replacement too"
                )
                self.obstacles.append(Obstacle("user", ours, node, words))


def _parts_of(expected: Any, obtained: Any) -> list[Pair] | None:
    """Pair the parts of two containers; None where they are none, or not of one form."""
    if isinstance(expected, (list, tuple)) and isinstance(obtained, (list, tuple)) and len(expected) == len(obtained):
        return list(zip(expected, obtained, strict=True))
    if isinstance(expected, slice) and isinstance(obtained, slice):
        return list(zip(slice_parts(expected), slice_parts(obtained), strict=True))
    if isinstance(expected, dict) and isinstance(obtained, dict) and expected.keys() == obtained.keys():
        return [(value, obtained[key]) for key, value in expected.items()]
    return None
