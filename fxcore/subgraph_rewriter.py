"""Replacing every occurrence of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from fxcore.adopted_attributes import adopt_all, adopt_used, names_for_constants
from fxcore.collector import collector_paused
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.internal_match import InternalMatch
from fxcore.match_replacer import MatchReplacer, ReplacingGraph
from fxcore.matcher import SubgraphMatcher
from fxcore.node import Node
from fxcore.replacement import CallbackReplacement, LiteralReplacement, Replacement, graph_of

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """One place where a pattern was replaced."""

    # The node of the pattern from which the match was found.
    anchor: Node
    # From nodes of the pattern to what they stood for.
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One place where a pattern was replaced, and by what."""

    # The node of the pattern from which the match was found.
    anchor: Node
    # From nodes of the pattern to what they stood for.
    nodes_map: dict[Node, Node]
    # The nodes that came into the graph.
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
    *,
    match_modules: str = "path",
    ignore_literals: bool = False,
    capture_literals: bool = False,
    bind_arguments: bool = False,
) -> list[Match]:
    """Replace whatever in `gm` computes what `pattern` computes, and return the places in order.

    Parameters of `pattern` stand for any value or constant; `replacement` takes the same parameters and returns as
    much. Matches that overlap an earlier one are left, as are places where others read what the pattern computes but
    does not return. Other keywords are those of `replace_pattern_with_filters`.
    """
    replaced = replace_pattern_with_filters(
        gm,
        pattern,
        replacement,
        ignore_literals=ignore_literals,
        match_modules=match_modules,
        capture_literals=capture_literals,
        bind_arguments=bind_arguments,
    )
    return [Match(anchor=each.anchor, nodes_map=each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
    *,
    match_modules: str = "path",
    capture_literals: bool = False,
    bind_arguments: bool = False,
) -> list[ReplacedPatterns]:
    """Replace whatever in `gm` computes what `pattern` computes, and return the places in order with what came there.

    A match counts only if every one of `match_filters` says so, asked with the match, the graph and the pattern's
    graph. `replacement_callback`, asked likewise, makes a graph for each match in place of `replacement`. With
    `ignore_literals`, a constant in the pattern stands for any constant. With `node_name_match`, the last nodes of
    the pattern match by a part of their name, whatever they call.

    `match_modules` says how modules are compared: by "path" (as torch.fx does), by "class", or by "config", which is
    class and hyper-parameters; by the last two, the paths that the pattern uses mean the matched modules in the
    replacement. With `capture_literals`, constants that parameters of the pattern stand for are handed to
    `replacement`, a function, as Python values. With `bind_arguments`, it does not matter whether an argument is
    given by position, by keyword, or left to its default.
    """
    with collector_paused():
        graph, pattern_graph = gm.graph, graph_of(pattern)
        matcher = SubgraphMatcher(
            pattern_graph, ignore_literals=ignore_literals, match_modules=match_modules, bind_arguments=bind_arguments
        )
        _refuse_without_operation(pattern_graph)
        filters = match_filters or []
        matches = [
            match
            for match in matcher.match(graph, node_name_match)
            if all(accepts(match, graph, pattern_graph) for accepts in filters)
        ]
        source = _source_of(replacement, replacement_callback, graph, pattern_graph, capture_literals)
        replacer = MatchReplacer(
            graph,
            pattern_graph,
            at_once=replacement_callback is not None or _has_hooks(gm),
            modules_are_captured=match_modules != "path",
        )
        replaced, names = _replace_all(gm, matches, source, replacer)
        gm.recompile()
        if isinstance(replacement, nn.Module):
            adopt_all(gm, replacement, names)
    return replaced


def _source_of(
    replacement: Callable[..., Any] | Graph | GraphModule | None,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None,
    graph: Graph,
    pattern: Graph,
    capture_literals: bool,
) -> Replacement:
    if callback is not None:
        return CallbackReplacement(callback, graph, pattern)
    if replacement is None:
        raise GraphArgumentError(
            "Must provide either a replacement GraphModule or a replacement callback: both are None"
        )
    return LiteralReplacement(replacement) if capture_literals else Replacement(replacement)


def _has_hooks(gm: GraphModule) -> bool:
    return bool(gm._replace_hooks or gm._create_node_hooks or gm._erase_node_hooks)


def _replace_all(
    gm: GraphModule, matches: list[InternalMatch], source: Replacement, replacer: MatchReplacer
) -> tuple[list[ReplacedPatterns], Mapping[str, str]]:
    """Replace the matches; return them with what came there, and the new names of constants that came along."""
    replaced = []
    all_names: dict[str, str] = {}
    known: dict[Graph, tuple[ReplacingGraph, dict[str, str]]] = {}
    for match in matches:
        graph, inputs = source.for_match(match)
        if graph not in known:
            known[graph] = replacer.prepare(graph), names_for_constants(gm, graph)
            adopt_used(gm, graph, known[graph][1], replacer.captured_paths)
            all_names.update(known[graph][1])
        prepared, names = known[graph]
        copies = replacer.replace(match, prepared, inputs, names)
        if copies is not None:
            replaced.append(ReplacedPatterns(match.anchors[0], match.nodes_map, copies))
    replacer.finish()
    return replaced, all_names


def _refuse_without_operation(pattern: Graph) -> None:
    if all(node.op in ("placeholder", "output") for node in pattern.nodes):
        raise GraphArgumentError(
            "the pattern has no operation, so it would be found everywhere; it must call something with its parameters"
        )
