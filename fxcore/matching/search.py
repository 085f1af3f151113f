"""The search for a pattern in a graph: from its last nodes upwards, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from torch._ops import OpOverload

from fxcore.graph import Graph
from fxcore.matching.argument_pairing import Pair
from fxcore.matching.comparison import Correspondence
from fxcore.matching.compiled_pattern import CompiledPattern, QuickCorrespondence
from fxcore.matching.match import InternalMatch
from fxcore.matching.module_equality import stand_for_one_each
from fxcore.node import Node

_in_order = attrgetter("_sort_key")


class Anchor:
    """A node of a pattern from which matching climbs, with everything above it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        # From each node above, the next one on a way down to the sink.
        self._reader: dict[Node, Node] = {}
        pending = [node]
        while pending:
            reader = pending.pop()
            for value in reader._input_nodes:
                if value not in self._reader:
                    self._reader[value] = reader
                    pending.append(value)

    def above(self) -> list[Node]:
        """Return the nodes that the sink depends on, those of a chain from the sink upwards."""
        return list(self._reader)

    def last_of(self, nodes: Collection[Node]) -> list[Node]:
        """Return those of some nodes above from which the way down to the sink passes none of the others."""
        return [node for node in self._reader if node in nodes and self._reader[node] not in nodes]

    def below(self, start: Node, found: Iterable[Node], are_alike: Callable[[Node, Node], bool]) -> list[Node]:
        """Return what can be the sink, in order, if `found` is everything in the graph that can be `start`."""
        here: Iterable[Node] = found
        while start is not self.node:
            start = self._reader[start]
            readers = [reader for node in here for reader in node.users]
            here = dict.fromkeys([reader for reader in readers if are_alike(start, reader)])
        return sorted(here, key=_in_order)


class Candidates:
    """Nodes to be tried in order, without those at the front that a match has claimed."""

    def __init__(self, nodes: list[Node], claimed: Container[Node]) -> None:
        self._nodes = nodes
        self._claimed = claimed
        self._first = 0

    def __iter__(self) -> Iterator[Node]:
        nodes = self._nodes
        # Claimed for good: whoever asks next need not pass them again.
        while self._first < len(nodes) and nodes[self._first] in self._claimed:
            self._first += 1
        for index in range(self._first, len(nodes)):
            yield nodes[index]


class OperatorLookup:
    """Finds the nodes of a graph that do what a node of a pattern does, by the graph's index of operators."""

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
    sinks: list[Anchor]
    compiled: CompiledPattern | None  # None for a pattern that is to be compared in the general way

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
        self._may_use_index = matcher.has_usual_equality()
        self._found: Correspondence | QuickCorrespondence = Correspondence(
            matcher._nodes_are_equal,
            matcher.pair_arguments,
            matcher.ignore_literals,
            self._claimed,
            matcher._is_contained,
        )
        # On the way down to a sink, which may be matched by its name.
        self._are_alike_below = self._are_alike_or_named if node_name_match else matcher._nodes_are_equal
        self._starts: dict[int, _Start] = {}
        self._reached: dict[tuple[int, Node, Node | None], Candidates] = {}
        self._sinks_by_scan: dict[Node, list[Node]] = {}

    def matches(self) -> Iterator[InternalMatch]:
        """Yield the matches in order."""
        if self._matcher.sinks and self._has_every_operator():
            compiled = self._matcher.compiled
            if compiled is not None and not self._wanted_name and self._are_written_alike(compiled):
                self._found = QuickCorrespondence(
                    compiled, self._matcher.pattern_returning_nodes, self._claimed, self._matcher.ignore_literals
                )
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

    def _are_written_alike(self, compiled: CompiledPattern) -> bool:
        """Tell whether calls of operator overloads are written as in the pattern: else their schemas are asked."""
        overloads = [node for node in compiled.order if isinstance(node._target, OpOverload)]
        return all(
            len(node._args) == len(expected._args) and list(node._kwargs) == list(expected._kwargs)
            for expected in overloads
            for node in self._lookup.find(expected)
        )

    def _is_wildcard(self, node: Node) -> bool:
        return node._op == "placeholder" and not self._matcher.match_placeholder

    def _extend(self, depth: int) -> Iterator[InternalMatch]:
        """Yield the matches that go on from what was found for the first `depth` sinks."""
        found, claimed = self._found, self._claimed
        sink = self._matcher.sinks[depth].node
        is_last = depth + 1 == len(self._matcher.sinks)
        size = len(found)
        for node in self._candidates(depth):
            if not found.extend(sink, node, is_alike=True):
                continue
            if is_last:
                match = self._accepted()
                if match is not None:
                    yield match
            else:
                yield from self._extend(depth + 1)
            found.cut_back(size)
            if depth and claimed and not claimed.isdisjoint(found.compute_nodes()):
                return

    def _accepted(self) -> InternalMatch | None:
        """Return the match that was found; None if it cannot be replaced."""
        matcher, found = self._matcher, self._found
        if not found.is_contained() or not found.is_convex():
            return None
        nodes_map = found.as_map()
        if not matcher.compares_modules_by_path and not stand_for_one_each(nodes_map):
            return None
        if matcher.remove_overlapping_matches:
            self._claimed.update(found.compute_nodes())
        return InternalMatch(
            matcher.pattern_anchors,
            nodes_map,
            [nodes_map.get(node) for node in matcher.pattern_placeholder_nodes],
            [nodes_map[node] for node in matcher.pattern_returning_nodes],
        )

    def _candidates(self, depth: int) -> Iterable[Node]:
        """Return what can be a sink of the pattern, in order, given what was found for the sinks before it."""
        sink = self._matcher.sinks[depth]
        start, found, known = self._shortest_start(depth)
        if known is not None and len(found) <= _FEW:
            return sink.below(start, (known,), self._are_alike_below)
        # Another sink may have been found from the same value before: a wide value's readers are looked at once.
        key = depth, start, known
        if key not in self._reached:
            nodes = found if known is None else [known]
            self._reached[key] = Candidates(sink.below(start, nodes, self._are_alike_below), self._claimed)
        return self._reached[key]

    def _shortest_start(self, depth: int) -> tuple[Node, Collection[Node], Node | None]:
        """Return the node of the pattern, up from a sink, from which fewest nodes of the graph are reached; and those.

        If one of the graph's stands for it already, that comes third.
        """
        if depth not in self._starts:
            self._starts[depth] = self._start_without_known(self._matcher.sinks[depth])
        start, nodes, above = self._starts[depth]
        found: Collection[Node] = nodes
        known = None
        # A value that is known comes first, unless next to nothing is to be tried without: its readers are looked at
        # once, for however many sinks before, and the others would be tried again for each of these.
        fewest = len(found) if len(found) <= _FEW else sys.maxsize
        for expected in above:
            value = self._found.get(expected)
            if isinstance(value, Node) and len(value.users) < fewest:
                start, found, known = expected, value.users, value
                fewest = len(found)
        return start, found, known

    def _start_without_known(self, sink: Anchor) -> _Start:
        start, found = sink.node, self._all_sinks(sink.node)
        if not self._may_use_index:
            return _Start(start, found, [])
        known = {node for node in sink.above() if self._found.get(node) is not None}
        for expected in sink.above():
            if expected not in known and not self._is_wildcard(expected):
                nodes = self._lookup.find(expected)
                if len(nodes) < len(found):
                    start, found = expected, nodes
        return _Start(start, found, sink.last_of(known))

    def _all_sinks(self, sink: Node) -> Sequence[Node]:
        if self._may_use_index and not self._wanted_name:
            return self._lookup.find(sink)
        if sink not in self._sinks_by_scan:
            nodes = [node for node in self._graph.nodes if self._are_alike_below(sink, node)]
            self._sinks_by_scan[sink] = nodes
        return self._sinks_by_scan[sink]

    def _are_alike_or_named(self, expected: Node, node: Node) -> bool:
        is_sink = expected in self._matcher.pattern_anchors
        return self._matcher._nodes_are_equal(expected, node, self._wanted_name if is_sink else "")


class _Start(NamedTuple):
    """Where the way down to a sink begins, if no value that is known has fewer readers."""

    node: Node
    found: Sequence[Node]  # everything in the graph that can be it
    known: list[Node]  # nodes of the pattern, nearest to the sink, for which something stands already


# So few readers of a value are looked at anew for each sink before.
_FEW = 8
