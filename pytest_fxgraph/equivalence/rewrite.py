"""Replacing a pattern, with an account of what was found and what was not. The fixture `fx_rewrite`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import fxcore
from fxcore.internal_match import InternalMatch
from fxcore.match_explanation import MatchExplanation, explain_matching
from fxcore.matcher import SubgraphMatcher
from fxcore.replacement import graph_of
from fxcore.subgraph_rewriter import ReplacedPatterns, replace_pattern_with_filters
from pytest_fxgraph.capture.subjects import Adapter, to_graph_module
from pytest_fxgraph.equivalence.rewrite_words import RewriteWords

MatchFilter = Callable[[InternalMatch, fxcore.Graph, fxcore.Graph], bool]


@dataclass(frozen=True)
class RewriteResult:
    """What came of replacing a pattern."""

    graph_module: fxcore.GraphModule  # the rewritten graph
    matched: list[ReplacedPatterns]  # the places, in order; empty where the pattern did not match
    _before: fxcore.GraphModule = field(repr=False)
    _pattern: fxcore.Graph | fxcore.GraphModule = field(repr=False)  # kept, as its graph does not keep its module
    _matcher: SubgraphMatcher = field(repr=False)
    _filters: tuple[MatchFilter, ...] = field(repr=False)
    _node_name_match: str = field(repr=False)

    @cached_property
    def explanation(self) -> MatchExplanation:
        """Say which places of the graph as it was are matches, and why those that come nearest are none."""
        return explain_matching(self._matcher, self._before.graph, self._node_name_match)

    def explain(self) -> str:
        """Say in words what matched, and of the nearest places that did not, why: nodes, source lines, reasons."""
        taken: list[InternalMatch] = []
        refused: list[InternalMatch] = []
        for match in self.explanation.matches:
            (taken if self._is_accepted(match) else refused).append(match)
        return RewriteWords(self.explanation, taken, refused, len(self.matched)).text()

    def _is_accepted(self, match: InternalMatch) -> bool:
        return all(accepts(match, self._before.graph, self._matcher.pattern) for accepts in self._filters)


def rewrite(
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
    adapt: Adapter | None = None,
) -> RewriteResult:
    """Replace a pattern and return the places and the graph; options as of `replace_pattern_with_filters`.

    An fxcore.GraphModule is rewritten in place, as replace_pattern does; of any other subject a graph is made first.
    """
    graph_module = to_graph_module(gm, adapt)
    # Traced once: what is explained later must be what was looked for.
    sought = pattern if isinstance(pattern, fxcore.Graph) else to_graph_module(pattern, adapt)
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
        graph_of(sought), ignore_literals=ignore_literals, match_modules=match_modules, bind_arguments=bind_arguments
    )
    return RewriteResult(graph_module, matched, before, sought, matcher, tuple(match_filters or ()), node_name_match)
