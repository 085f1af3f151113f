"""Replacement of every match of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from torch import nn

from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.lazy_forward import discard_lazy_code
from fxcore.matching.attribute_transfer import copy_all_attributes, copy_used_attributes, names_for_constants
from fxcore.matching.deferred_edits import expect_edits, has_listeners
from fxcore.matching.match import InternalMatch
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.matching.replacement import Replacement, graph_of, replacement_of
from fxcore.matching.replacer import MatchReplacer, ReplacingGraph
from fxcore.node import Node

_T = TypeVar("_T")

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """One place where a pattern was replaced."""

    # The node of the pattern from which the match was found.
    anchor: Node
    # Node of the pattern -> its match.
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One place where a pattern was replaced, with the new nodes."""

    # The node of the pattern from which the match was found.
    anchor: Node
    # Node of the pattern -> its match.
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
    """Replace every part of `gm` that computes the same as `pattern`, and return the places in order.

    Parameters of `pattern` match any value or constant. `replacement` takes the same parameters and returns as many
    values. A match that overlaps an earlier one stays. So does a place where other nodes read values that the pattern
    computes but does not return. Keywords and errors are those of `replace_pattern_with_filters`.
    """
    options = _Matching(ignore_literals, match_modules, capture_literals, bind_arguments)
    return _rewrite(gm, pattern, replacement, options, lambda anchor, nodes_map, made: Match(anchor, nodes_map))


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
    """Replace every part of `gm` that computes the same as `pattern`; return the places with the new nodes, in order.

    A match counts only if every one of `match_filters` accepts it; each is called with the match, the graph and the
    pattern's graph. `replacement_callback`, called with the same arguments, makes a graph for each match in place of
    `replacement`. With `ignore_literals`, a constant in the pattern matches any constant. With `node_name_match`, the
    last nodes of the pattern match by a part of their name, whatever they call.

    `match_modules` selects the comparison of modules: "path" (as in torch.fx), "class", or "config" (class and
    hyper-parameters). With the last two, the paths of the pattern mean the matched modules in the replacement. With
    `capture_literals`, constants matched by parameters of the pattern are passed to `replacement`, a function, as
    Python values. With `bind_arguments`, an argument may be given by position, by keyword, or left to its default.

    Raises GraphArgumentError (an AssertionError) for a pattern without an operation or with dead code, for an unknown
    `match_modules`, and for a replacement that takes or returns another number of values; NodeTargetError (a
    ValueError) for an empty pattern.
    """
    options = _Matching(
        ignore_literals, match_modules, capture_literals, bind_arguments, node_name_match, match_filters or []
    )
    return _rewrite(gm, pattern, replacement, options, ReplacedPatterns, replacement_callback)


@dataclass(frozen=True)
class _Matching:
    """The options of the search for a pattern."""

    ignore_literals: bool
    match_modules: str
    capture_literals: bool
    bind_arguments: bool
    node_name_match: str = ""
    filters: Sequence[Callable[[InternalMatch, Graph, Graph], bool]] = ()


def _rewrite(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None,
    options: _Matching,
    record: Callable[[Node, dict[Node, Any], list[Node]], _T],
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
) -> list[_T]:
    """Replace the matches, and return a `record` of each: made from anchor, node map and new nodes."""
    with gc_paused():
        graph, pattern_graph = gm.graph, graph_of(pattern)
        matcher = SubgraphMatcher(
            pattern_graph,
            ignore_literals=options.ignore_literals,
            match_modules=options.match_modules,
            bind_arguments=options.bind_arguments,
        )
        refuse_without_operation(pattern_graph)
        matches = matcher.match(graph, options.node_name_match)
        if options.filters:
            matches = [
                each for each in matches if all(accept(each, graph, pattern_graph) for accept in options.filters)
            ]
        source = replacement_of(replacement, callback, graph, pattern_graph, capture_literals=options.capture_literals)
        replacer = MatchReplacer(
            graph,
            pattern_graph,
            # User code that runs between edits must find the graph whole and the module unchanged.
            at_once=callback is not None or has_listeners(graph) or graph.owning_module is not gm,
            modules_are_captured=options.match_modules != "path",
        )
        replaced, names = _replace_all(gm, matches, source, replacer, record)
        gm.recompile()
        if isinstance(replacement, nn.Module):
            copy_all_attributes(gm, replacement, names)
        del matches  # before the garbage collector runs again
        return replaced


# A match, its replacement, the replacement's input values, and new names for its constants.
Plan = tuple[InternalMatch, ReplacingGraph, list[Any], dict[str, str]]


def _replace_all(
    gm: GraphModule,
    matches: list[InternalMatch],
    source: Replacement,
    replacer: MatchReplacer,
    record: Callable[[Node, dict[Node, Any], list[Node]], _T],
) -> tuple[list[_T], Mapping[str, str]]:
    """Replace the matches; return their records, and the new names of constants in replacements."""
    plans: Iterable[Plan] = plans_of(gm, matches, source, replacer, {})
    if not replacer.at_once and matches:
        # All steps that can fail or run user code come before the first edit.
        plans = list(plans)
        discard_lazy_code(gm, gm.graph)
        expect_edits(gm.graph, len(matches))
    replaced = []
    all_names: dict[str, str] = {}
    for match, replacement, inputs, names in plans:
        if names:
            all_names.update(names)
        copies = replacer.replace(match, replacement, inputs, names)
        if copies is not None:
            replaced.append(record(match.anchors[0], match.nodes_map, copies))
    replacer.finish()
    return replaced, all_names


def plans_of(
    gm: GraphModule,
    matches: list[InternalMatch],
    source: Replacement,
    replacer: MatchReplacer,
    known: dict[Graph, tuple[ReplacingGraph, dict[str, str]]],
) -> Iterator[Plan]:
    """Yield the plan for each match, and give `gm` the attributes that the replacement needs.

    `known` keeps the prepared replacements for further calls.
    """
    for match in matches:
        graph, inputs = source(match)
        entry = known.get(graph)
        if entry is None:
            names = names_for_constants(gm, graph)
            entry = known[graph] = replacer.prepare(graph), names
            copy_used_attributes(gm, graph, names, replacer.captured_paths)
        prepared, names = entry
        if len(inputs) != len(prepared.inputs) or prepared.unmatched:
            replacer.check_inputs(match, prepared, inputs)
        yield match, prepared, inputs, names


def refuse_without_operation(pattern: Graph) -> None:
    if all(node.op in ("placeholder", "output") for node in pattern.nodes):
        raise GraphArgumentError(
            "the pattern has no operation, so it would be found everywhere; it must call something with its parameters"
        )
