"""The search for a pattern in a graph: from its last nodes upwards, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from fxcore.argument_pairs import Pair
from fxcore.candidates import Candidates, OperatorLookup, Sink
from fxcore.convexity import is_convex
from fxcore.correspondence import Correspondence
from fxcore.graph import Graph
from fxcore.internal_match import InternalMatch
from fxcore.module_likeness import stand_for_one_each
from fxcore.node import Node


class PatternInUse(Protocol):
    """What a search asks of the matcher that it works for."""

    pattern_anchors: list[Node]
    pattern_placeholder_nodes: list[Node]
    pattern_returning_nodes: list[Node]
    match_placeholder: bool
    remove_overlapping_matches: bool
    ignore_literals: bool
    compares_modules_by_path: bool
    pair_arguments: Callable[[Node, Node], list[Pair] | None]
    sinks: list[Sink]

    def has_usual_equality(self) -> bool:
        """Tell whether nodes are alike only if the graph's index of operators says so."""

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool: ...

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool: ...


class PatternSearch:
    """One look for a pattern in a graph."""

    def __init__(self, matcher: PatternInUse, graph: Graph, node_name_match: str) -> None:
        self._matcher = matcher
        self._graph = graph
        self._wanted_name = node_name_match
        self._claimed: set[Node] = set()
        self._lookup = OperatorLookup(
            graph,
            matcher._nodes_are_equal,
            by_path=matcher.compares_modules_by_path,
            placeholders=matcher.match_placeholder,
        )
        self._found = Correspondence(matcher._nodes_are_equal, matcher.pair_arguments, matcher.ignore_literals)
        self._found.off_limits = self._claimed
        self._may_use_index = matcher.has_usual_equality()
        self._reached: dict[tuple[int, Node, Node | None], Candidates] = {}
        self._sinks_by_scan: dict[Node, list[Node]] = {}

    def matches(self) -> Iterator[InternalMatch]:
        """Yield the matches in order."""
        if self._matcher.sinks and self._has_every_operator():
            yield from self._extend(0)

    def _has_every_operator(self) -> bool:
        """Tell whether the graph has each operator of the pattern at all."""
        if not self._may_use_index:
            return True
        for sink in self._matcher.sinks:
            nodes = sink.above() if self._wanted_name else [sink.node, *sink.above()]
            if not all(self._is_wildcard(node) or self._lookup.find(node) for node in nodes):
                return False
        return True

    def _is_wildcard(self, node: Node) -> bool:
        return node._op == "placeholder" and not self._matcher.match_placeholder

    def _extend(self, depth: int) -> Iterator[InternalMatch]:
        """Yield the matches that go on from what was found for the first `depth` sinks."""
        if depth == len(self._matcher.sinks):
            yield from self._accept()
            return
        sink = self._matcher.sinks[depth].node
        size = len(self._found.nodes_map)
        for node in self._candidates(depth):
            if self._found.extend(sink, node, is_alike=True):
                yield from self._extend(depth + 1)
                self._found.cut_back(size)
                if depth and self._claimed and not self._claimed.isdisjoint(self._found.compute_nodes()):
                    return

    def _accept(self) -> Iterator[InternalMatch]:
        matcher, nodes_map = self._matcher, self._found.nodes_map
        nodes = self._found.compute_nodes()
        if not matcher._is_contained(nodes_map) or not is_convex(nodes):
            return
        if not matcher.compares_modules_by_path and not stand_for_one_each(nodes_map):
            return
        if matcher.remove_overlapping_matches:
            self._claimed.update(nodes)
        yield InternalMatch(
            anchors=matcher.pattern_anchors,
            nodes_map=nodes_map.copy(),
            placeholder_nodes=[nodes_map.get(node) for node in matcher.pattern_placeholder_nodes],
            returning_nodes=[nodes_map[node] for node in matcher.pattern_returning_nodes],
        )

    def _candidates(self, depth: int) -> Candidates:
        """Return what can be a sink of the pattern, in order, given what was found for the sinks before it."""
        sink = self._matcher.sinks[depth]
        start, found = self._shortest_start(sink)
        # Another sink may have been found from the same value before: a wide value's readers are looked at once.
        key = depth, start, found[0] if found and start in self._found.nodes_map else None
        if key not in self._reached:
            self._reached[key] = Candidates(sink.below(start, found, self._are_alike_below), self._claimed)
        return self._reached[key]

    def _shortest_start(self, sink: Sink) -> tuple[Node, Sequence[Node]]:
        """Return the node of the pattern, up from a sink, that fewest nodes of the graph can be; and those."""
        start, found = sink.node, self._all_sinks(sink.node)
        if not self._may_use_index:
            return start, found
        for expected in sink.above():
            known = self._found.nodes_map.get(expected)
            if isinstance(known, Node):
                if len(known.users) < len(found):
                    start, found = expected, [known]
            elif not self._is_wildcard(expected) and len(self._lookup.find(expected)) < len(found):
                start, found = expected, self._lookup.find(expected)
        return start, found

    def _all_sinks(self, sink: Node) -> Sequence[Node]:
        if self._may_use_index and not self._wanted_name:
            return self._lookup.find(sink)
        if sink not in self._sinks_by_scan:
            nodes = [node for node in self._graph.nodes if self._are_alike_below(sink, node)]
            self._sinks_by_scan[sink] = nodes
        return self._sinks_by_scan[sink]

    def _are_alike_below(self, expected: Node, node: Node) -> bool:
        """Compare on the way down to a sink, which may be matched by its name."""
        is_sink = expected in self._matcher.pattern_anchors
        return self._matcher._nodes_are_equal(expected, node, self._wanted_name if is_sink else "")
