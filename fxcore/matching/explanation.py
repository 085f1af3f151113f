"""Near matches of a pattern: a comparison that goes on after a difference and reports the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fxcore.errors import FxError
from fxcore.graph import Graph
from fxcore.matching.argument_pairing import Pair, pair_as_written, pair_by_parameter
from fxcore.matching.candidates import Anchor
from fxcore.matching.comparison import are_same_constants, is_convex, pair_parts
from fxcore.matching.literals import constants_equal
from fxcore.matching.match import InternalMatch
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.matching.module_equality import differing_settings, stand_for_one_each, value_of
from fxcore.node import Node
from fxcore.node_data.printing import format_argument
from fxcore.node_data.targets import readable_target

_LONGEST = 60


@dataclass(frozen=True)
class MatchFailure:
    """One reason against a match at a place."""

    # "operator", "module", "attribute", "literal": another one; "arguments": they do not pair up; "wiring": a value
    # from elsewhere; "claimed": part of an earlier match; "user": a reader outside; "cycle": a way around; "missing":
    # nothing is there.
    kind: str
    expected: Node  # the node of the pattern
    obtained: Node | None  # the compared node of the graph
    message: str  # a sentence without a full stop


def describe_call(node: Node) -> str:
    """Return the call of a node in words: "torch.relu", "the method relu", "the module 'conv' (Conv2d)"."""
    target = node.target
    if node.op == "placeholder":
        return f"the input {node.name}"
    if node.op == "call_method":
        return f"the method {target}"
    if node.op in ("call_module", "get_attr"):
        what = "module" if node.op == "call_module" else "attribute"
        return f"the {what} {target!r}{_class_suffix(node)}"
    if node.op == "output":
        return "the return"
    return shown_target(target)


def shown_target(target: Any) -> str:
    """Return a target for messages: a path, "torch.relu", or its repr if it has no name."""
    try:
        return readable_target(target)
    except (FxError, AttributeError):
        return repr(target)


def _class_suffix(node: Node) -> str:
    try:
        return f" ({type(value_of(node)).__name__})"
    except FxError:
        return ""


def plain_name(node: Node) -> str:
    """Return the name that all spellings of an operator share: "relu" for torch.relu, x.relu() and nn.ReLU."""
    if node.op == "call_method":
        return str(node.target).strip("_").lower()
    if node.op == "call_module":
        return _class_suffix(node).strip(" ()").lower()
    return str(getattr(node.target, "__name__", "")).strip("_").lower() if node.op == "call_function" else ""


def another_operation(expected: Node, obtained: Node) -> MatchFailure:
    """Return the failure of two nodes with different operations."""
    both = f"the pattern has {describe_call(expected)}, and here is {describe_call(obtained)}"
    if expected.op == obtained.op == "call_module":
        return MatchFailure("module", expected, obtained, both + _module_hint(expected, obtained))
    if expected.op == obtained.op == "get_attr":
        return MatchFailure("attribute", expected, obtained, f"{both}, which holds something else")
    is_spelt_otherwise = plain_name(expected) and plain_name(expected) == plain_name(obtained)
    hint = ", which is another spelling: write the pattern as the graph does" if is_spelt_otherwise else ""
    return MatchFailure("operator", expected, obtained, both + hint)


def _module_hint(expected: Node, obtained: Node) -> str:
    suffix = _class_suffix(expected)
    if not suffix or suffix != _class_suffix(obtained):
        return ""
    differing = differing_settings(value_of(expected), value_of(obtained))
    told = f", whose {_bounded('; '.join(differing))}" if differing else ""
    return f"{told}; match_modules='class' takes any of the class"


def other_arguments(expected: Node, obtained: Node) -> MatchFailure:
    """Return the failure of two calls whose arguments do not pair up."""
    hint = "; bind_arguments=True pairs them by parameter" if pair_by_parameter(expected, obtained) is not None else ""
    message = (
        f"{describe_call(expected)} is called with {_arguments_text(expected)} in the pattern, with "
        f"{_arguments_text(obtained)} here{hint}"
    )
    return MatchFailure("arguments", expected, obtained, message)


def other_literal(reader: Node, obtained_reader: Node, expected: Any, obtained: Any) -> MatchFailure:
    """Return the failure of an argument that is another constant, or a constant on one side only."""
    is_constant = not isinstance(expected, Node) and not isinstance(obtained, Node)
    hint = "; ignore_literals=True takes any constant" if is_constant else ""
    message = (
        f"an argument of {describe_call(reader)} is {_text(expected)} in the pattern, and {_text(obtained)} here{hint}"
    )
    return MatchFailure("literal" if is_constant else "wiring", reader, obtained_reader, message)


def _arguments_text(node: Node) -> str:
    parts = [_text(argument) for argument in node.args]
    parts += [f"{name}={_text(argument)}" for name, argument in node.kwargs.items()]
    return f"({_bounded(', '.join(parts))})"


def _text(argument: Any) -> str:
    if isinstance(argument, Node):
        return f"%{argument.name}"
    return _bounded(repr(argument) if isinstance(argument, str) else format_argument(argument, 6))


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# A place with more reasons is not near, and nobody reads further.
_MOST_FAILURES = 8


class _NearMatch:
    """The comparison of one place with a pattern."""

    def __init__(self, matcher: SubgraphMatcher, claimed: Mapping[Node, Node], wanted_name: str) -> None:
        """Compare with the matcher's pattern; `claimed` maps a node in an earlier match to that match's last node."""
        self._matcher = matcher
        self._claimed = claimed
        self._wanted_name = wanted_name
        self._stands_for: dict[Node, Node] = {}
        self._seen: set[Node] = set()
        self.nodes_map: dict[Node, Any] = {}
        self.failures: list[MatchFailure] = []
        self.agreed = 0  # operations of the pattern that are there

    def compare(self, expected: Node, obtained: Node) -> None:
        """Compare a node and all its inputs with a node of the pattern; record the failures."""
        pending: list[tuple[Any, Any, Node, Node]] = [(expected, obtained, expected, obtained)]
        while pending and len(self.failures) < _MOST_FAILURES:
            ours, theirs, reader, obtained_reader = pending.pop()
            if isinstance(ours, Node) and isinstance(theirs, Node):
                pairs = self._compare_nodes(ours, theirs, reader, obtained_reader)
                pending += [(one, other, ours, theirs) for one, other in reversed(pairs)]
            else:
                parts = self._compare_arguments(ours, theirs, reader, obtained_reader)
                pending += [(one, other, reader, obtained_reader) for one, other in reversed(parts)]

    def finish(self) -> None:
        """Check the surroundings of the place after all last nodes agreed."""
        if self.failures:
            return
        self._look_for_readers_outside()
        nodes = [node for node, ours in self._stands_for.items() if ours.op not in ("placeholder", "output")]
        last = self._matcher.pattern_anchors[-1]
        found = self.nodes_map.get(last)
        place = found if isinstance(found, Node) else None
        if not self.failures and not is_convex(nodes):
            message = (
                "what it computes is read outside, and the result of that is read here again: it cannot become one"
            )
            self.failures.append(MatchFailure("cycle", last, place, message))
        if not self._matcher.compares_modules_by_path and not stand_for_one_each(self.nodes_map):
            message = "the pattern calls one module more than once, and here these are several modules"
            self.failures.append(MatchFailure("module", last, place, message))
        if not self.failures and not self._matcher._is_contained(self.nodes_map):
            self.failures.append(MatchFailure("user", last, place, "the matcher does not take it for self-contained"))

    def _compare_nodes(self, expected: Node, obtained: Node, reader: Node, obtained_reader: Node) -> list[Pair]:
        if expected in self._seen or obtained in self._stands_for:
            self._compare_known(expected, obtained, reader, obtained_reader)
            return []
        self._seen.add(expected)
        is_alike = self._matcher.are_alike(expected, obtained, self._wanted_name)
        if is_alike and expected.op == "placeholder":
            self._bind(expected, obtained)
            return []
        if not is_alike:
            self.failures.append(another_operation(expected, obtained))
            # The inputs of two similar calls show how near the place is.
            is_call = expected.op.startswith("call") and obtained.op.startswith("call")
            return pair_as_written(expected, obtained) or [] if is_call else []
        self.agreed += 1
        self._bind(expected, obtained)
        if obtained in self._claimed:
            message = f"{obtained.name} is part of the match at {self._claimed[obtained].name}, which comes first"
            self.failures.append(MatchFailure("claimed", expected, obtained, message))
        pairs = self._matcher.pair_arguments(expected, obtained)
        if pairs is None:
            self.failures.append(other_arguments(expected, obtained))
        return pairs or []

    def _bind(self, expected: Node, obtained: Node) -> None:
        self.nodes_map[expected] = obtained
        self._stands_for[obtained] = expected

    def _compare_known(self, expected: Node, obtained: Node, reader: Node, obtained_reader: Node) -> None:
        if expected in self._seen and expected not in self.nodes_map:
            return  # its failure is recorded already
        bound = self.nodes_map.get(expected)
        if bound is obtained:
            return
        if isinstance(bound, Node):
            message = f"the pattern reads {expected.name} twice, and here these are two values, {bound} and {obtained}"
        elif expected in self.nodes_map:
            message = f"{expected.name} stands for the constant {bound!r} already, and here for {obtained}"
        else:
            other = self._stands_for[obtained]
            message = f"{obtained.name} would stand for both {other.name} and {expected.name} of the pattern"
        self.failures.append(MatchFailure("wiring", reader, obtained_reader, message))

    def _compare_arguments(self, expected: Any, obtained: Any, reader: Node, obtained_reader: Node) -> list[Pair]:
        if isinstance(expected, Node) and expected.op == "placeholder" and not isinstance(obtained, Node):
            self._bind_literal(expected, obtained, reader, obtained_reader)
            return []
        parts = pair_parts(expected, obtained)
        if parts is not None:
            return parts
        if not are_same_constants(expected, obtained, self._matcher.ignore_literals):
            self.failures.append(other_literal(reader, obtained_reader, expected, obtained))
        return []

    def _bind_literal(self, expected: Node, obtained: Any, reader: Node, obtained_reader: Node) -> None:
        if expected in self.nodes_map:
            bound = self.nodes_map[expected]
            if isinstance(bound, Node) or not constants_equal(bound, obtained):
                message = f"{expected.name} stands for {bound} already, and here for the constant {obtained!r}"
                self.failures.append(MatchFailure("wiring", reader, obtained_reader, message))
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
                message = (
                    f"{node.name}, which is {describe_call(ours)} of the pattern, is also read by {names} outside of "
                    "the match; return it from the pattern and the replacement too"
                )
                self.failures.append(MatchFailure("user", ours, node, message))


# Most places to compare. They are enough to explain a graph with more places that resemble the pattern.
_MOST_PLACES = 500


@dataclass(frozen=True)
class NearPlace:
    """A place that is almost a match."""

    node: Node  # the candidate for the pattern's last operation
    agreed: int  # operations of the pattern that are there
    total: int  # operations of the pattern
    failures: tuple[MatchFailure, ...]


@dataclass(frozen=True)
class MatchExplanation:
    """The result of a search: matches, and near places with the reasons against them."""

    matches: tuple[InternalMatch, ...]
    absent: tuple[Node, ...]  # operations of the pattern that the graph lacks
    near: tuple[NearPlace, ...]  # nearest first


def explain_matching(
    matcher: SubgraphMatcher, graph: Graph, node_name_match: str = "", *, limit: int = 3
) -> MatchExplanation:
    """Search the matcher's pattern, and give the reasons against at most `limit` places that do not match.

    `node_name_match` is the option of `SubgraphMatcher.match`. The nearest places come first: most agreeing operations,
    then fewest reasons. Raises GraphArgumentError (an AssertionError) if a module has to be looked up in a graph
    without an owning_module.
    """
    matches = matcher.match(graph, node_name_match)
    claimed = _claimed_by(matches) if matcher.remove_overlapping_matches else {}
    look = _Look(matcher, graph, node_name_match)
    anchors = {match.nodes_map[match.anchors[0]] for match in matches}
    candidates = [node for node in look.candidates() if node not in anchors]
    places = [place for place in (look.place_at(node, claimed) for node in candidates) if place is not None]
    places.sort(key=lambda place: (-place.agreed, len(place.failures)))
    return MatchExplanation(tuple(matches), look.absent(), tuple(places[:limit]))


def _claimed_by(matches: Iterable[InternalMatch]) -> dict[Node, Node]:
    claimed: dict[Node, Node] = {}
    for match in matches:
        for ours, node in match.nodes_map.items():
            if isinstance(node, Node) and ours.op not in ("placeholder", "output"):
                claimed[node] = match.nodes_map[match.anchors[0]]
    return claimed


class _Look:
    """The search of a graph for places that resemble a pattern."""

    def __init__(self, matcher: SubgraphMatcher, graph: Graph, wanted_name: str) -> None:
        self._matcher = matcher
        self._wanted_name = wanted_name
        self._operations = [node for node in matcher.pattern.nodes if node.op not in ("placeholder", "output")]
        self._nodes = [node for node in graph.nodes if matcher.match_output or node.op != "output"]
        self._alike = {
            each: [node for node in self._nodes if matcher.are_alike(each, node, wanted_name)]
            for each in self._operations
        }

    def absent(self) -> tuple[Node, ...]:
        """Return the operations of the pattern that the graph lacks."""
        return tuple(node for node in self._operations if not self._alike[node])

    def candidates(self) -> list[Node]:
        """Return the nodes that may be meant by the pattern's first anchor, the likeliest first."""
        anchors = self._matcher.anchors
        return list(islice(self._resembling(anchors[0]), _MOST_PLACES)) if anchors else []

    def _resembling(self, anchor: Anchor) -> dict[Node, None]:
        found = dict.fromkeys(self._alike.get(anchor.node, ()))
        for inner in anchor.above():
            if self._alike.get(inner):
                # Down the way of the pattern, through any nodes of the graph.
                found.update(dict.fromkeys(anchor.below(inner, self._alike[inner], _is_anything)))
        name = plain_name(anchor.node)
        found.update(dict.fromkeys(node for node in self._nodes if name and plain_name(node) == name))
        return found

    def place_at(self, node: Node, claimed: Mapping[Node, Node]) -> NearPlace | None:
        """Compare a place with the pattern; None for a match, and for a place where nothing agrees."""
        near = _NearMatch(self._matcher, claimed, self._wanted_name)
        first, *others = self._matcher.anchors
        near.compare(first.node, node)
        for anchor in others:
            self._compare_other(near, anchor)
        near.finish()
        if not near.failures or not (near.agreed or plain_name(node) == plain_name(first.node)):
            return None
        return NearPlace(node, near.agreed, len(self._operations), tuple(near.failures))

    def _compare_other(self, near: _NearMatch, anchor: Anchor) -> None:
        """Continue with another anchor, below the nodes found for the earlier anchors."""
        starts = [(inner, near.nodes_map[inner]) for inner in anchor.above() if inner in near.nodes_map]
        nodes = [(inner, node) for inner, node in starts if isinstance(node, Node)]
        below = [reader for inner, node in nodes for reader in anchor.below(inner, [node], _is_anything)]
        fitting = [reader for reader in below or self._alike.get(anchor.node, []) if reader in self._alike[anchor.node]]
        if fitting:
            near.compare(anchor.node, fitting[0])
        else:
            message = (
                f"nothing that reads the same values is {describe_call(anchor.node)}, which the pattern returns too"
            )
            near.failures.append(MatchFailure("missing", anchor.node, None, message))


def _is_anything(expected: Node, node: Node) -> bool:
    return node.op != "output"
