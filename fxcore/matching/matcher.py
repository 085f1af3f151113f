"""The search of a pattern, itself a graph, in a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from fxcore.errors import GraphArgumentError, NodeTargetError
from fxcore.graph import Graph, gc_paused
from fxcore.matching.argument_pairing import Pair, pair_as_written, pair_by_parameter
from fxcore.matching.candidates import Anchor, Candidates, OperatorLookup
from fxcore.matching.comparison import PartialMatch, is_convex, nodes_in
from fxcore.matching.literals import constants_equal
from fxcore.matching.match import InternalMatch
from fxcore.matching.module_equality import module_comparison, stand_for_one_each, value_of
from fxcore.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


class SubgraphMatcher:
    """Finder of the places where a graph computes the same as a pattern."""

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
        *,
        match_modules: str = "path",
        bind_arguments: bool = False,
    ) -> None:
        """Prepare a search for `pattern`. Its inputs match any value or constant.

        With `match_output`, the pattern's return must be the graph's; with `match_placeholder`, the pattern's inputs
        must be inputs. With `remove_overlapping_matches`, the first of several matches that share an operation counts.
        With `ignore_literals`, a constant in the pattern matches any constant. Modules are matched by "path", "class"
        or "config" (class and hyper-parameters). With `bind_arguments`, an argument may be given by position, by
        keyword, or left to its default.

        Raises NodeTargetError (a ValueError) for an empty pattern, and GraphArgumentError (an AssertionError) for a
        pattern with dead code or for an unknown `match_modules`.
        """
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        self.compares_modules_by_path = match_modules == "path"
        self._are_alike_modules = module_comparison(match_modules)
        self.pair_arguments: Callable[[Node, Node], list[Pair] | None] = (
            pair_by_parameter if bind_arguments else pair_as_written
        )
        nodes = list(pattern.nodes)
        if not nodes:
            raise NodeTargetError(
                "SubgraphMatcher cannot be initialized with an empty pattern: there is nothing to look for"
            )
        _refuse_dead_code(nodes)
        self.pattern_placeholder_nodes = [node for node in nodes if node._op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = list(nodes[-1]._input_nodes)
        self.pattern_anchors: list[Node] = self._find_anchors(nodes)
        self.anchors = [Anchor(node) for node in self.pattern_anchors]
        # Values that only operations of the match may read -> number of these readers.
        self._readers_inside = {
            node: len(node.users)
            for node in nodes
            if node._op not in ("placeholder", "output") and node not in self.pattern_returning_nodes
        }

    def _find_anchors(self, nodes: list[Node]) -> list[Node]:
        if self.match_output:
            return [nodes[-1]]
        returned = [node for node in self.pattern_returning_nodes if len(node.users) == 1]
        # Nothing reads these nodes, but they have effects, so a match must contain them.
        effects = [node for node in nodes if not node.users and node._op not in ("placeholder", "output")]
        return returned + effects

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the places where the pattern is found, in the order of the graph.

        A value that the pattern computes but does not return is read within the match only, and a single node could
        replace the match without making a cycle. Nodes of the graph with `node_name_match` in their name match the
        pattern's last nodes, whatever they call.

        Raises GraphArgumentError (an AssertionError) if an attribute or module has to be looked up and a graph has no
        owning_module that has it.
        """
        with gc_paused():
            return list(_PatternSearch(self, graph, node_name_match).matches())

    def match_at(self, graph: Graph, node: Node) -> InternalMatch | None:
        """Return the first match of which `node` is the first anchor's value; None without one.

        Raises the errors of `match`.
        """
        if not self._nodes_are_equal(self.pattern_anchors[0], node):
            return None
        return next(_PatternSearch(self, graph, "", node).matches(), None)

    def has_usual_equality(self) -> bool:
        """Return whether only nodes found by the graph's index of operators can match.

        A subclass may compare otherwise.
        """
        return type(self)._nodes_are_equal is SubgraphMatcher._nodes_are_equal

    def are_alike(self, expected: Node, obtained: Node, wanted_name: str) -> bool:
        """Return whether a node is like a node of the pattern, or has the wanted name where the pattern ends."""
        return self._nodes_are_equal(expected, obtained, wanted_name if expected in self.pattern_anchors else "")

    # Methods for subclasses.

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Return whether a node of the graph does the same as a node of the pattern, without regard to arguments."""
        op = pn._op
        if op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn._name:
            return True
        if op != gn._op:
            return False
        if op == "call_function" or op == "call_method":
            return bool(pn._target == gn._target)
        if op == "call_module":
            return self._are_alike_modules(pn, gn)
        return self._match_attributes(pn, gn) if op == "get_attr" else True

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Return whether an attribute matches: any tensor matches a tensor of its class, other values if equal."""
        expected, obtained = value_of(pn), value_of(gn)
        if type(expected) is not type(obtained):
            return False
        return isinstance(expected, torch.Tensor) or constants_equal(expected, obtained)

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Return whether only nodes of the match read values that the pattern does not return."""
        for node, readers in self._readers_inside.items():
            # Each reader in the pattern has one match here. Further readers are outside.
            if len(nodes_map[node].users) != readers:
                return False
        for node in self.pattern_placeholder_nodes:
            # A list matched by an input may hold a value that the match replaces.
            value = nodes_map.get(node)
            held = [] if isinstance(value, Node) else nodes_in(value)
            if held and any(match in held for ours, match in nodes_map.items() if ours._op != "placeholder"):
                return False
        return True


def _refuse_dead_code(nodes: list[Node]) -> None:
    for node in nodes:
        if not node.users and node._op != "output" and not node.is_impure():
            raise GraphArgumentError(
                "SubgraphMatcher cannot be initialized with an pattern with dead code: "
                f"{node._name!r} ({node._op}) has no users; return it, or leave it out"
            )


class _PatternSearch:
    """One search for a pattern in a graph; with `first`, for matches that begin at this node."""

    def __init__(self, matcher: SubgraphMatcher, graph: Graph, node_name_match: str, first: Node | None = None) -> None:
        self._matcher = matcher
        self._first = first
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
        self._found = PartialMatch(
            matcher._nodes_are_equal, matcher.pair_arguments, matcher.ignore_literals, self._claimed
        )
        # For the way down to an anchor. The anchor may match by its name.
        self._are_alike_below = self._are_alike_or_named if node_name_match else matcher._nodes_are_equal
        # A single returned value comes last and cannot come back. The check took 5 % of the time of replacing.
        self._cannot_be_cyclic = (
            len(matcher.anchors) == 1
            and matcher.pattern_anchors == matcher.pattern_returning_nodes
            and type(matcher)._is_contained is SubgraphMatcher._is_contained
        )
        self._starts: dict[int, _Start] = {}
        self._reached: dict[tuple[int, Node, Node | None], Candidates] = {}
        self._found_by_scan: dict[Node, list[Node]] = {}

    def matches(self) -> Iterator[InternalMatch]:
        """Yield the matches in order."""
        if self._matcher.anchors and (self._first is not None or self._has_every_operator()):
            yield from self._extend(0)

    def _has_every_operator(self) -> bool:
        """Return whether the graph has each operator of the pattern."""
        if not self._may_use_index:
            return True
        for anchor in self._matcher.anchors:
            nodes = anchor.above() if self._wanted_name else [anchor.node, *anchor.above()]
            if not all(self._is_wildcard(node) or self._lookup.find(node) for node in nodes):
                return False
        return True

    def _is_wildcard(self, node: Node) -> bool:
        return node._op == "placeholder" and not self._matcher.match_placeholder

    def _extend(self, depth: int) -> Iterator[InternalMatch]:
        """Yield the matches that continue the mapping of the first `depth` anchors."""
        found, claimed = self._found, self._claimed
        anchor = self._matcher.anchors[depth].node
        is_last = depth + 1 == len(self._matcher.anchors)
        size = len(found.nodes_map)
        for node in self._candidates(depth):
            if not found.extend(anchor, node):
                continue
            if is_last:
                match = self._accepted()
                if match is not None:
                    yield match
            else:
                yield from self._extend(depth + 1)
            found.cut_back(size)
            if depth and claimed and not claimed.isdisjoint(found.operations()):
                return

    def _accepted(self) -> InternalMatch | None:
        """Return the current mapping as a match; None if it cannot be replaced."""
        matcher, found = self._matcher, self._found
        if not matcher._is_contained(found.nodes_map):
            return None
        operations = found.operations()
        if not (self._cannot_be_cyclic or is_convex(operations)):
            return None
        nodes_map = found.nodes_map.copy()
        if not matcher.compares_modules_by_path and not stand_for_one_each(nodes_map):
            return None
        if matcher.remove_overlapping_matches:
            self._claimed.update(operations)
        return InternalMatch(
            matcher.pattern_anchors,
            nodes_map,
            [nodes_map.get(node) for node in matcher.pattern_placeholder_nodes],
            [nodes_map[node] for node in matcher.pattern_returning_nodes],
        )

    def _candidates(self, depth: int) -> Iterable[Node]:
        """Return the possible values of an anchor, in order, given the mapping of the anchors before it."""
        if not depth and self._first is not None:
            return (self._first,)
        anchor = self._matcher.anchors[depth]
        start, found, known = self._shortest_start(depth)
        if known is not None and len(found) <= _FEW:
            return anchor.below(start, (known,), self._are_alike_below)
        # An earlier anchor may have started from the same value. The readers of a wide value are visited once.
        key = depth, start, known
        if key not in self._reached:
            nodes = found if known is None else [known]
            self._reached[key] = Candidates(anchor.below(start, nodes, self._are_alike_below), self._claimed)
        return self._reached[key]

    def _shortest_start(self, depth: int) -> tuple[Node, Collection[Node], Node | None]:
        """Return the node above an anchor with the fewest candidates in the graph, the candidates, and its value.

        If the node is mapped already, its value comes third and the candidates are the value's readers; otherwise None.
        """
        if depth not in self._starts:
            self._starts[depth] = self._start_without_known(self._matcher.anchors[depth])
        start, nodes, above = self._starts[depth]
        found: Collection[Node] = nodes
        known = None
        # A known value comes first, unless there are few candidates without it. Its readers are visited once for all
        # earlier anchors, but the other candidates would be tried again for each of these.
        fewest = len(found) if len(found) <= _FEW else sys.maxsize
        for expected in above:
            value = self._found.nodes_map.get(expected)
            if isinstance(value, Node) and len(value.users) < fewest:
                start, found, known = expected, value.users, value
                fewest = len(found)
        return start, found, known

    def _start_without_known(self, anchor: Anchor) -> _Start:
        start, found = anchor.node, self._all_like(anchor.node)
        if not self._may_use_index:
            return _Start(start, found, [])
        known = {node for node in anchor.above() if self._found.nodes_map.get(node) is not None}
        for expected in anchor.above():
            if expected not in known and not self._is_wildcard(expected):
                nodes = self._lookup.find(expected)
                if len(nodes) < len(found):
                    start, found = expected, nodes
        return _Start(start, found, anchor.last_of(known))

    def _all_like(self, anchor: Node) -> Sequence[Node]:
        if self._may_use_index and not self._wanted_name:
            return self._lookup.find(anchor)
        if anchor not in self._found_by_scan:
            nodes = [node for node in self._graph.nodes if self._are_alike_below(anchor, node)]
            self._found_by_scan[anchor] = nodes
        return self._found_by_scan[anchor]

    def _are_alike_or_named(self, expected: Node, node: Node) -> bool:
        return self._matcher.are_alike(expected, node, self._wanted_name)


class _Start(NamedTuple):
    """The start of the search for an anchor's candidates, if no mapped value has fewer readers."""

    node: Node
    found: Sequence[Node]  # every node of the graph that can match it
    known: list[Node]  # mapped nodes of the pattern that are nearest to the anchor


# Up to this many readers of a value are visited again for each earlier anchor.
_FEW = 8
