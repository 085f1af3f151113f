"""The fixture `fx_rewrite`, which replaces a pattern, and `explain_match`, for the matches and the near misses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

import fxcore
from fxcore.matching.explanation import MatchExplanation, MatchFailure, describe_call, explain_matching
from fxcore.matching.match import InternalMatch
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.matching.replacement import graph_of
from fxcore.subgraph_rewriter import ReplacedPatterns, replace_pattern_with_filters
from fxcore.transforms.rule import Rule, RuleMatch
from fxcore.transforms.rule_set import RuleSet
from pytest_fxgraph.captures.shapes import positional_arguments
from pytest_fxgraph.captures.subjects import Adapter, to_graph_module
from pytest_fxgraph.document.origins import Origins
from pytest_fxgraph.report.printable import first_lines, listed

if TYPE_CHECKING:
    from pytest_fxgraph.transform.rule_check import RuleChecks

_REASONS = 3
_NAMED = 5
_LINE = 240


def _explanation_text(
    explanation: MatchExplanation, accepted: Sequence[InternalMatch], refused: Sequence[InternalMatch], replaced: int
) -> str:
    """Return one fact a line, at most some twenty lines. `refused` are the matches that a filter of the user's refused.

    `accepted` are all other matches, and `replaced` is their number.
    """
    lines = ["the pattern did not match" + ("; the nearest places:" if explanation.near else "")]
    if replaced:
        near = "; the nearest places that did not:" if explanation.near else ""
        times = "once" if replaced == 1 else f"{replaced} times"
        lines = [f"the pattern matched {times}: {listed(map(_place_of_match, accepted), _NAMED, '; ')}{near}"]
    if absent := list(dict.fromkeys(describe_call(node) for node in explanation.absent)):
        lines.append(f"  the graph has nowhere {listed(absent, _NAMED)}")
    if refused:
        lines.append(f"  match_filters refused {listed(map(_place_of_match, refused), _NAMED)}")
    for place in explanation.near:
        lines.append(f"  at {_place(place.node)}: {place.agreed} of {place.total} operations are there, but")
        reasons = [f"    {_reason(failure, place.node)}" for failure in place.failures]
        lines += first_lines(reasons, _REASONS, "    and {} more reasons")
    if not (replaced or refused or explanation.near):
        lines.append("  no place of the graph has any operation of the pattern")
    return "\n".join(line if len(line) <= _LINE else f"{line[: _LINE - 3]}..." for line in lines)


def _reason(failure: MatchFailure, anchor: fxcore.Node) -> str:
    node = failure.obtained
    where = f"{_place(node)}: " if node is not None and node is not anchor else ""
    return where + failure.message


def _place_of_match(match: InternalMatch) -> str:
    return _place(match.nodes_map[match.anchors[0]])


def _place(node: fxcore.Node) -> str:
    source = Origins(sources=True).source(node)
    return f"{node.name} ({source})" if source else node.name


MatchFilter = Callable[[InternalMatch, fxcore.Graph, fxcore.Graph], bool]


@dataclass(frozen=True)
class RewriteResult:
    """The result of `fx_rewrite` and `rewrite`."""

    graph_module: fxcore.GraphModule  # the rewritten graph
    matched: list[ReplacedPatterns]  # the places, in order; empty where the pattern did not match
    _before: fxcore.GraphModule = field(repr=False)
    _pattern: fxcore.Graph | fxcore.GraphModule = field(repr=False)  # kept, as its graph does not keep its module
    _matcher: SubgraphMatcher = field(repr=False)
    _filters: tuple[MatchFilter, ...] = field(repr=False)
    _node_name_match: str = field(repr=False)

    @cached_property
    def explanation(self) -> MatchExplanation:
        """Return the matches in the graph as it was, and why the nearest other places do not match, as data."""
        return explain_matching(self._matcher, self._before.graph, self._node_name_match)

    def explain(self) -> str:
        """Return a text: the matches, and the reasons why the nearest other places do not match."""
        accepted: list[InternalMatch] = []
        refused: list[InternalMatch] = []
        for match in self.explanation.matches:
            (accepted if self._is_accepted(match) else refused).append(match)
        return _explanation_text(self.explanation, accepted, refused, len(self.matched))

    def _is_accepted(self, match: InternalMatch) -> bool:
        return all(accepts(match, self._before.graph, self._matcher.pattern) for accepts in self._filters)


class FxRewrite:
    """Replaces a pattern in a graph: the fixture `fx_rewrite`."""

    def __init__(self, adapt: Adapter | None = None) -> None:
        """Take the user's hook that makes a subject a graph."""
        self._adapt = adapt

    def __call__(
        self,
        gm: Any,
        pattern: Any,
        replacement: Any = None,
        match_filters: list[MatchFilter] | None = None,
        ignore_literals: bool = False,
        replacement_callback: Callable[[InternalMatch, fxcore.Graph, fxcore.Graph], fxcore.Graph] | None = None,
        node_name_match: str = "",
        *,
        match_modules: str = "path",
        capture_literals: bool = False,
        bind_arguments: bool = False,
    ) -> RewriteResult:
        """Replace a pattern in a graph; the options are the options of fxcore's `replace_pattern_with_filters`.

        An fxcore.GraphModule is changed in place; any other subject is first made a graph. The result has the list
        of matches (`matched`), the graph, and `explain()`. Raises SubjectError (a TypeError) for an
        object that is no subject, CaptureError if tracing fails, and the errors of `replace_pattern_with_filters`.
        """
        graph_module = to_graph_module(gm, self._adapt)
        # Traced once, so that explain() explains the pattern that was searched for.
        sought = pattern if isinstance(pattern, fxcore.Graph) else to_graph_module(pattern, self._adapt)
        before = fxcore.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
        matched = replace_pattern_with_filters(
            graph_module,
            sought,
            replacement,
            match_filters,
            ignore_literals,
            replacement_callback,
            node_name_match,
            match_modules=match_modules,
            capture_literals=capture_literals,
            bind_arguments=bind_arguments,
        )
        matcher = SubgraphMatcher(
            graph_of(sought),
            ignore_literals=ignore_literals,
            match_modules=match_modules,
            bind_arguments=bind_arguments,
        )
        return RewriteResult(
            graph_module, matched, before, sought, matcher, tuple(match_filters or ()), node_name_match
        )

    def check(
        self,
        pattern: Any,
        replacement: Any,
        inputs: Any,
        *,
        when: Callable[[RuleMatch], bool | str | None] | None = None,
        match_modules: str = "path",
        capture_literals: bool = False,
        dtypes: Sequence[torch.dtype] | None = None,
        **options: Any,
    ) -> RuleChecks:
        """Check a pattern and its replacement alone, on `inputs` and on inputs that are generated from them.

        Tensors are varied in size, dtype, layout and values, other values are constants of the pattern and are varied
        as well. `search` is the number of tries (100), `dtypes` are the further dtypes; other options are options of
        `fx_equivalence`. Raises MismatchError (an AssertionError) with the inputs that show the fault,
        PassArgumentError for a replacement with other effects, and VacuousCheckError if nothing could be compared.
        """
        __tracebackhide__ = True
        rule = Rule(
            pattern,
            replacement,
            when,
            name="pattern",
            match_modules=match_modules,
            capture_literals=capture_literals,
            example_inputs=positional_arguments(inputs),
        )
        return self.check_rules(RuleSet([rule]), dtypes=dtypes, **options)

    def check_rules(self, rules: RuleSet, inputs: Mapping[str, object] | None = None, **options: Any) -> RuleChecks:
        """Check every rule of a set alone; `inputs` has example inputs by the names of rules.

        Options and errors are those of `check`. MismatchError names each wrong rule.
        """
        __tracebackhide__ = True
        from pytest_fxgraph.transform.rule_check import check_rules

        return check_rules(rules, inputs, **options)


# The class is known by name, because isinstance() would import torch's passes for every user.
_TORCH_MATCHERS = {"torch.fx.passes.utils.matcher_utils", "torch.fx.passes.utils.matcher_with_name_node_map_utils"}


def explain_match(
    pattern: Any,
    graph: Any,
    *,
    match_output: bool = False,
    match_placeholder: bool = False,
    ignore_literals: bool = False,
    node_name_match: str = "",
    match_modules: str = "path",
) -> str:
    """Return a text: the matches of a pattern in a graph, and the reasons for the nearest places without a match.

    `pattern` is a graph of fxcore or torch.fx, a function that is traced, or a `SubgraphMatcher` of either library with
    its options. The other arguments are arguments of `SubgraphMatcher(...)` and of its `match(...)`. No graph changes.
    Raises SubjectError (a TypeError) for an object that is no subject, CaptureError if tracing fails, and the errors of
    `fxcore.passes.utils.matcher_utils.SubgraphMatcher` for a pattern that it refuses.
    """
    if isinstance(pattern, SubgraphMatcher):
        matcher = pattern
    else:
        asked = {
            "match_output": match_output,
            "match_placeholder": match_placeholder,
            "ignore_literals": ignore_literals,
        }
        if type(pattern).__module__ in _TORCH_MATCHERS:
            asked = {name: bool(getattr(pattern, name)) for name in (*asked, "remove_overlapping_matches")}
            pattern = pattern.pattern
        sought = to_graph_module(pattern)  # held here, as its graph does not hold it
        matcher = SubgraphMatcher(sought.graph, **asked, match_modules=match_modules)
    searched = to_graph_module(graph)
    found = explain_matching(matcher, searched.graph, node_name_match)
    return _explanation_text(found, found.matches, (), len(found.matches))
