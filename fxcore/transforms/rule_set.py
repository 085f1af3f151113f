"""Sets of rules as values: they add, and are applied together until no rule applies."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from fxcore.errors import PassError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.matching.comparison import nodes_in
from fxcore.matching.explanation import shown_target
from fxcore.matching.module_equality import value_of
from fxcore.matching.replacement import Replacement, replacement_of
from fxcore.matching.replacer import MatchReplacer
from fxcore.node import Node
from fxcore.node_data.purity import is_impure
from fxcore.operators.kinds import overload_behind
from fxcore.passes.infra.working_copy import Changes, Report, RewritingPass
from fxcore.subgraph_rewriter import plans_of
from fxcore.traceback import NodeSource, NodeSourceAction, meta_taken_over
from fxcore.transforms.fusion.calls import has_hooks, place_of
from fxcore.transforms.rule import Action, Calls, Rule, RuleMatch
from fxcore.transforms.rule_effects import Surroundings, effects_of_nodes, lost_effects

__all__ = ["Rewrite", "RuleReport", "RuleSet", "RuleStatistics"]


class RewrittenCall(NamedTuple):
    """A node before or after a rewrite."""

    name: str
    op: str
    target: Any

    def __str__(self) -> str:
        return f"{self.name} ({shown_target(self.target)})"


class Rewrite(NamedTuple):
    """One rewrite: its rule, its place, the removed and the new nodes. A value that was there before is not new."""

    rule: str
    place: str
    before: tuple[RewrittenCall, ...]
    after: tuple[RewrittenCall, ...]

    def __str__(self) -> str:
        return f"{self.rule}: {_listed(self.before)} -> {_listed(self.after)}"


def _noted(nodes: Iterable[Node]) -> tuple[RewrittenCall, ...]:
    return tuple([RewrittenCall(each.name, each.op, each.target) for each in nodes])


def _listed(calls: Iterable[RewrittenCall]) -> str:
    return ", ".join(map(str, calls)) or "a value that was there"


@dataclass
class RuleStatistics:
    """The account of one rule."""

    rule: str
    tried: int = 0  # nodes that were compared with the pattern
    matched: int = 0
    rewritten: int = 0
    rejected: dict[str, str] = field(default_factory=dict)  # place -> the reason of `when`, or of the effects there
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = (
            f"{self.tried} tried, {self.matched} matched, {self.rewritten} rewritten, {len(self.rejected)} rejected"
        )
        return f"{self.rule}: {counts}, {self.seconds * 1000:.1f} ms"


@dataclass(frozen=True)
class RuleReport(Report):
    """The rewrites in order, the matches that were left with their reasons, and the account of each rule."""

    titles: ClassVar[tuple[str, str]] = ("rewritten", "left alone")
    statistics: tuple[RuleStatistics, ...] = ()

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The rewrites in order."""
        return self.changed

    def __str__(self) -> str:
        return "\n".join(
            [super().__str__(), f"rules {len(self.statistics)}", *(f"  {each}" for each in self.statistics)]
        )


# Called with each rewrite, when the graph is whole again.
Watcher = Callable[[Rewrite], None]


class RuleSet(RewritingPass):
    """Rules that are applied in one walk through the graph, again and again until none applies.

    Where several rules match at a node, the first one of the set is applied. A set is a pass: called with a module, it
    returns a result with the new module and a `RuleReport`. `a + b` has the rules of both. `most_rounds` is the largest
    number of walks.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, most_rounds: int = 20) -> None:
        """Take the rules in their order, and index them by the operator of each pattern's last call."""
        self.rules = tuple(rules)
        self.most_rounds = most_rounds
        self._index: dict[Hashable, _Entries] = {}
        for order, rule in enumerate(self.rules):
            keys = rule.pattern.keys() if isinstance(rule.pattern, Calls) else [_key_of_anchor(rule)]
            for key in keys:
                self._index.setdefault(key, _Entries()).add(order, rule)

    def __add__(self, other: RuleSet) -> RuleSet:
        if not isinstance(other, RuleSet):
            return NotImplemented
        return RuleSet((*self.rules, *other.rules), most_rounds=max(self.most_rounds, other.most_rounds))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __repr__(self) -> str:
        return f"RuleSet({', '.join(names_of(self.rules))})"

    def report_on(self, made: GraphModule) -> RuleReport:
        """Apply the rules to `made`, and report. Raises PassError if rules still apply after `most_rounds`."""
        return self.apply(made)

    def rewrite(self, made: GraphModule) -> Changes:
        """Apply the rules to `made`; return the places of the rewrites, and the reasons to leave others."""
        report = self.apply(made)
        return [each.place for each in report.rewrites], dict(report.left)

    def apply(self, made: GraphModule, watch: Watcher | None = None, *, once: bool = False) -> RuleReport:
        """Apply the rules to the graph of `made` itself. `watch` is called with each rewrite, the graph whole.

        With `once`, walk once through the graph, whether rules still apply or not.

        Raises PassError if rules still apply after `most_rounds`.
        """
        with gc_paused():
            return _Application(self, made, watch).run(once)

    def rules_at(self, node: Node) -> list[tuple[int, Rule]]:
        """Return the rules whose pattern may end with a call like `node`, with their places in the set, in order."""
        if node.op == "call_module":
            module = value_of(node)
            found = [entry for key in (type(module), node.target) for entry in self._found(("call_module", key), node)]
        elif node.op == "get_attr":
            found = self._found(("get_attr", None), node)
        else:
            # Rules for an operator are rules for its overloads, and for the operators of dialects that wrap it.
            behind = overload_behind(node.target)
            targets = dict.fromkeys((node.target, behind, getattr(behind, "overloadpacket", node.target)))
            found = [entry for target in targets for entry in self._found((node.op, target), node)]
        return sorted(found, key=operator.itemgetter(0))

    def _found(self, key: Hashable, node: Node) -> list[tuple[int, Rule]]:
        entries = self._index.get(key)
        return [] if entries is None else entries.like(node)


def names_of(rules: Iterable[Rule]) -> list[str]:
    """Return the names of rules in messages; a rule without one is named by its place."""
    return [rule.name or f"rule {place}" for place, rule in enumerate(rules)]


def _key_of_anchor(rule: Rule) -> Hashable:
    assert rule.matcher is not None
    anchor = rule.matcher.pattern_anchors[0]
    if anchor.op == "call_module" and rule.match_modules != "path":
        return "call_module", type(value_of(anchor))
    return anchor.op, None if anchor.op == "get_attr" else anchor.target


class _Entries:
    """The rules for one operator, and an index of them by one argument of the call.

    A hundred patterns may end with one operator, and differ in the call before it or in a number.
    """

    def __init__(self) -> None:
        self._all: list[tuple[int, Rule]] = []
        self._plain: list[tuple[int, Rule]] = []  # rules for any argument
        self._by_argument: dict[tuple[int, Hashable], list[tuple[int, Rule]]] = {}

    def add(self, order: int, rule: Rule) -> None:
        """Add a rule."""
        self._all.append((order, rule))
        key = _key_of_argument(rule)
        (self._plain if key is None else self._by_argument.setdefault(key, [])).append((order, rule))

    def like(self, node: Node) -> list[tuple[int, Rule]]:
        """Return the rules that a call may match, by one of its arguments."""
        if not self._by_argument:
            return self._plain
        if node.kwargs:  # an argument may be written elsewhere
            return self._all
        found = list(self._plain)
        for place, argument in enumerate(node.args):
            found += self._by_argument.get((place, _key_of_value(argument)), ())
        return found


def _key_of_value(value: Any) -> Hashable:
    if isinstance(value, Node):
        return (value.op, value.target) if value.op in ("call_function", "call_method") else None
    # Two equal numbers of these types match each other alone.
    return (type(value), value) if type(value) in (int, str) else None


def _key_of_argument(rule: Rule) -> tuple[int, Hashable] | None:
    """Return place and key of the first argument that decides; None if every call has to be compared."""
    if rule.matcher is None or rule.bind_arguments:
        return None
    anchor = rule.matcher.pattern_anchors[0]
    for place, argument in enumerate(anchor.args):
        key = _key_of_value(argument)
        if key is not None and not anchor.kwargs and (isinstance(argument, Node) or not rule.ignore_literals):
            return place, key
    return None


class _Application:
    """One application of a set to one graph."""

    def __init__(self, rules: RuleSet, gm: GraphModule, watch: Watcher | None) -> None:
        self._set, self._gm, self._graph, self._watch = rules, gm, gm.graph, watch
        self._statistics = [RuleStatistics(name) for name in names_of(rules)]
        self._rewriters: dict[int, _PatternRewriter] = {}
        self._rewrites: list[Rewrite] = []
        self._surroundings = Surroundings(gm)

    def run(self, once: bool) -> RuleReport:
        """Walk through the graph until no rule applies, or once."""
        earlier = known = 0
        for _ in range(self._set.most_rounds):
            earlier, known = known, len(self._rewrites)
            for node in list(self._graph.nodes):
                if not node._erased:
                    self._visit(node)
            if len(self._rewrites) == known or once:
                break
            self._surroundings = Surroundings(self._gm)
        else:
            last = self._rewrites[earlier:]
            if last:
                raise PassError(
                    f"after {self._set.most_rounds} rounds rules still apply, for "
                    f"{', '.join(sorted({each.rule for each in last}))}: a rule gives what it is for, or two rules "
                    f"undo each other (last at {last[-1].place}); let it return NotImplemented or `when` refuse where "
                    "a call is to stay, or raise most_rounds"
                )
        if self._rewrites:
            self._gm.recompile()
        left = {place: reason for each in self._statistics for place, reason in each.rejected.items()}
        return RuleReport.of(self._rewrites, left, tuple(self._statistics))

    def _visit(self, node: Node) -> None:
        """Apply the first rule that matches at a node."""
        for order, rule in self._set.rules_at(node):
            statistics = self._statistics[order]
            start = time.perf_counter()
            statistics.tried += 1
            match = self._match(rule, node)
            reason = self._reason_against(rule, match) if match is not None else None
            if match is not None and reason is not None:
                statistics.matched += 1
                place = place_of(node)
                reason = reason or self._apply(order, rule, match)
                if reason:
                    statistics.rejected[place] = reason
                else:
                    statistics.rewritten += 1
                    statistics.rejected.pop(place, None)
            statistics.seconds += time.perf_counter() - start
            if reason == "":
                return

    def _match(self, rule: Rule, node: Node) -> RuleMatch | None:
        if rule.matcher is None:
            return RuleMatch(self._gm, node, (node,), {})
        found = rule.matcher.match_at(self._graph, node)
        if found is None:
            return None
        calls = {obtained: None for expected, obtained in found.nodes_map.items() if expected.op != "placeholder"}
        values = {expected.name: obtained for expected, obtained in found.nodes_map.items()}
        return RuleMatch(self._gm, node, tuple(sorted(calls)), values, found)

    def _reason_against(self, rule: Rule, match: RuleMatch) -> str | None:
        """Return the reason of `when` against a match, an empty text, or None if the match is no candidate."""
        verdict = True if rule.when is None else rule.when(match)
        if verdict is None:
            return None
        if rule.matcher is None and match.node.op == "call_module" and has_hooks(match.module):
            return "it has hooks, which would no longer run"
        return verdict if isinstance(verdict, str) else "" if verdict else "`when` returned False"

    def _apply(self, order: int, rule: Rule, match: RuleMatch) -> str:
        """Rewrite a match; return the reason against it, or an empty text."""
        before = _noted(match.nodes)
        place, name = place_of(match.node), self._statistics[order].rule
        source = NodeSource(match.node, name, NodeSourceAction.REPLACE)
        inputs = [value for node in match.nodes for value in node.all_input_nodes]
        if rule.matcher is None or isinstance(rule.replacement, Action):
            made = self._record(rule, match)
        else:
            if order not in self._rewriters:
                self._rewriters[order] = _PatternRewriter(rule, self._gm)
            made = self._rewriters[order].replace(match, inputs, self._surroundings)
        if isinstance(made, str):
            return made
        for node in made:
            node.meta = {**meta_taken_over(match.node.meta), **node.meta, "from_node": [source]}
        self._erase_unread([*inputs, *made])
        self._surroundings.changed()
        after = _noted([each for each in made if not each._erased])
        self._rewrites.append(Rewrite(name, place, before, after))
        if self._watch is not None:
            self._gm.recompile()
            self._watch(self._rewrites[-1])
        return ""

    def _record(self, rule: Rule, match: RuleMatch) -> list[Node] | str:
        """Let the replacement record its nodes before the last call; return the new nodes, or a reason against them."""
        node, graph = match.node, self._graph
        reason = self._surroundings.reason_against_move(match.nodes, ())
        if reason:
            return reason
        last = node.prev
        with graph.inserting_before(node):
            if isinstance(rule.replacement, Action):
                result = rule.replacement.function(match)
            else:
                first = (match.module,) if node.op == "call_module" else ()
                result = match.record(rule.replacement, *first, *node.args, **node.kwargs)
        made = []
        while last.next is not node:
            made.append(last := last.next)
        if isinstance(result, str) and isinstance(rule.replacement, Action):
            reason = result
        elif result is NotImplemented or [(each.op, each.target) for each in made] == [(node.op, node.target)]:
            reason = _DECLINED
        elif not rule.changes_effects:
            reason = self._lost_effects(match.nodes, made, result)
        if reason:
            for each in reversed(made):
                graph.erase_node(each)
            return reason
        self._put_in_place_of(node, result, made)
        for each in reversed(match.nodes):
            if not each.users:
                graph.erase_node(each)
        return made

    def _lost_effects(self, matched: Iterable[Node], made: list[Node], result: Any) -> str:
        inputs = {value: value for each in (*matched, *made) for value in each.all_input_nodes}
        expected = effects_of_nodes(matched, [], dict(inputs), self._gm)
        lost = lost_effects(expected, effects_of_nodes(made, [], dict(inputs), self._gm))
        return f"its replacement has other effects: {lost}" if lost else ""

    def _put_in_place_of(self, node: Node, value: Any, made: list[Node]) -> None:
        """Let the readers of a node read a value, except for the new nodes; items of a tuple are read directly."""
        if isinstance(value, (tuple, list)):
            for user in [each for each in node.users if each.target is operator.getitem]:
                self._put_in_place_of(user, value[user.args[1]], made)
                self._graph.erase_node(user)
        node.replace_all_uses_with(value, lambda user: user not in made)

    def _erase_unread(self, pending: list[Node]) -> None:
        """Erase calls without readers and the values that they read, except for calls with effects."""
        while pending:
            node = pending.pop()
            if not (node._erased or node.users or is_impure(node, self._gm)):
                pending += node.all_input_nodes
                self._graph.erase_node(node)


_DECLINED = "its rule calls the same, or returned NotImplemented"


class _PatternRewriter:
    """The replacement of one pattern in one graph."""

    def __init__(self, rule: Rule, gm: GraphModule) -> None:
        assert rule.traced_pattern is not None
        pattern = rule.traced_pattern.graph
        source = rule.replacement if rule.capture_literals else rule.traced_replacement
        self._rule, self._gm = rule, gm
        literals = rule.capture_literals
        self._source: Replacement = replacement_of(source, None, gm.graph, pattern, capture_literals=literals)
        is_captured = rule.match_modules != "path"
        self._replacer = MatchReplacer(gm.graph, pattern, at_once=True, modules_are_captured=is_captured)
        self._prepared: dict[Graph, Any] = {}
        self._shares_otherwise: dict[Graph, bool] = {}

    def replace(self, match: RuleMatch, inputs: list[Node], surroundings: Surroundings) -> list[Node] | str:
        """Replace a match; return the new nodes, or the reason against it."""
        found = match.found
        assert found is not None
        graph, values = self._source(found)
        if graph not in self._shares_otherwise:
            self._shares_otherwise[graph] = self._rule.check_effects(graph)
        returned = [node for node in found.returning_nodes if isinstance(node, Node)]
        reason = surroundings.reason_against_move(match.nodes, returned)
        if not reason and self._shares_otherwise[graph]:
            reason = surroundings.reason_against_sharing([*inputs, *nodes_in(values)], returned)
        if reason:
            return reason
        ((_, prepared, values, names),) = plans_of(self._gm, [found], self._source, self._replacer, self._prepared)
        made = self._replacer.replace(found, prepared, values, names)
        if made is None:
            return "a value that the replacement reads depends on its result"
        for expected, successor in prepared.successors:
            if isinstance(successor, Node) and successor in prepared.body:
                new = made[prepared.body.index(successor)]
                known = found.nodes_map[expected].meta
                new.meta.update({key: known[key] for key in ("val", "tensor_meta") if key in known})
        return made
