"""Why a pattern was not found: the operators that a graph lacks, and the places that came nearest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from fxcore.candidates import Sink
from fxcore.graph import Graph
from fxcore.internal_match import InternalMatch
from fxcore.match_obstacle import Obstacle, call_words, plain_name
from fxcore.matcher import SubgraphMatcher
from fxcore.near_match import NearMatch
from fxcore.node import Node

# Places that are looked at; a graph with more that resemble the pattern shows its point with these.
_MOST_PLACES = 500


@dataclass(frozen=True)
class NearPlace:
    """A place that is almost a match."""

    node: Node  # what would stand for the pattern's last operation
    agreed: int  # operations of the pattern that are there
    total: int  # operations of the pattern
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class MatchExplanation:
    """What came of the search for a pattern, and of the places that are no matches."""

    matches: tuple[InternalMatch, ...]
    absent: tuple[Node, ...]  # operations of the pattern that the graph has nowhere
    near: tuple[NearPlace, ...]  # nearest first


def explain_matching(
    matcher: SubgraphMatcher, graph: Graph, node_name_match: str = "", *, limit: int = 3
) -> MatchExplanation:
    """Look for the matcher's pattern, and say of at most `limit` places that are no matches why they are none."""
    matches = matcher.match(graph, node_name_match)
    claimed = _claimed_by(matches) if matcher.remove_overlapping_matches else {}
    look = _Look(matcher, graph, node_name_match)
    anchors = {match.nodes_map[match.anchors[0]] for match in matches}
    candidates = [node for node in look.candidates() if node not in anchors]
    places = [place for place in (look.place_at(node, claimed) for node in candidates) if place is not None]
    places.sort(key=lambda place: (-place.agreed, len(place.obstacles)))
    return MatchExplanation(tuple(matches), look.absent(), tuple(places[:limit]))


def _claimed_by(matches: Iterable[InternalMatch]) -> dict[Node, Node]:
    claimed: dict[Node, Node] = {}
    for match in matches:
        for ours, node in match.nodes_map.items():
            if isinstance(node, Node) and ours.op not in ("placeholder", "output"):
                claimed[node] = match.nodes_map[match.anchors[0]]
    return claimed


class _Look:
    """One look around in a graph for what resembles a pattern."""

    def __init__(self, matcher: SubgraphMatcher, graph: Graph, wanted_name: str) -> None:
        self._matcher = matcher
        self._wanted_name = wanted_name
        self._operations = [node for node in matcher.pattern.nodes if node.op not in ("placeholder", "output")]
        self._nodes = [node for node in graph.nodes if matcher.match_output or node.op != "output"]
        self._alike = {each: self._all_alike(each) for each in self._operations}

    def _all_alike(self, expected: Node) -> list[Node]:
        name = self._wanted_name if expected in self._matcher.pattern_anchors else ""
        return [node for node in self._nodes if self._matcher._nodes_are_equal(expected, node, name)]

    def absent(self) -> tuple[Node, ...]:
        """Return the operations of the pattern that are nowhere in the graph."""
        return tuple(node for node in self._operations if not self._alike[node])

    def candidates(self) -> list[Node]:
        """Return the nodes that may have been meant by the pattern's first last operation, the likeliest first."""
        sinks = self._matcher.sinks
        return list(islice(self._resembling(sinks[0]), _MOST_PLACES)) if sinks else []

    def _resembling(self, sink: Sink) -> dict[Node, None]:
        found = dict.fromkeys(self._alike.get(sink.node, ()))
        for inner in sink.above():
            if self._alike.get(inner):
                # Down the way that the pattern goes, whatever stands on it in the graph.
                found.update(dict.fromkeys(sink.below(inner, self._alike[inner], _is_anything)))
        name = plain_name(sink.node)
        found.update(dict.fromkeys(node for node in self._nodes if name and plain_name(node) == name))
        return found

    def place_at(self, node: Node, claimed: Mapping[Node, Node]) -> NearPlace | None:
        """Hold the pattern against a place; None where it is a match, or nothing of the pattern is there."""
        near = NearMatch(self._matcher, claimed, self._wanted_name)
        first, *others = self._matcher.sinks
        near.compare(first.node, node)
        for sink in others:
            self._compare_other(near, sink)
        near.finish()
        if not near.obstacles or not (near.agreed or plain_name(node) == plain_name(first.node)):
            return None
        return NearPlace(node, near.agreed, len(self._operations), tuple(near.obstacles))

    def _compare_other(self, near: NearMatch, sink: Sink) -> None:
        """Go on with a further last operation, below what was found so far."""
        starts = [(inner, near.nodes_map[inner]) for inner in sink.above() if inner in near.nodes_map]
        nodes = [(inner, node) for inner, node in starts if isinstance(node, Node)]
        below = [reader for inner, node in nodes for reader in sink.below(inner, [node], _is_anything)]
        fitting = [reader for reader in below or self._alike.get(sink.node, []) if reader in self._alike[sink.node]]
        if fitting:
            near.compare(sink.node, fitting[0])
        else:
            words = f"nothing that reads the same values is {call_words(sink.node)}, which the pattern returns too"
            near.obstacles.append(Obstacle("missing", sink.node, None, words))


def _is_anything(expected: Node, node: Node) -> bool:
    return node.op != "output"
