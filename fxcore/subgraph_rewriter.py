"""Replacement of every match of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    replaced = replace_pattern_with_filters(
        gm,
        pattern,
        replacement,
        ignore_literals=ignore_literals,
        match_modules=match_modules,
        capture_literals=capture_literals,
        bind_arguments=bind_arguments,
    )
    return [Match(each.anchor, each.nodes_map) for each in replaced]


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
    `match_modules`, for filters that are no list of functions, and for a replacement that takes or returns another
    number of values; NodeTargetError (a ValueError) for an empty pattern.
    """
    with gc_paused():
        graph, pattern_graph = gm.graph, graph_of(pattern)
        matcher = SubgraphMatcher(
            pattern_graph, ignore_literals=ignore_literals, match_modules=match_modules, bind_arguments=bind_arguments
        )
        refuse_without_operation(pattern_graph)
        filters = () if match_filters is None else match_filters
        if not (isinstance(filters, Collection) and all(map(callable, filters))):
            raise GraphArgumentError(
                "match_filters must be a list of functions of a match, the graph and the pattern, got "
                f"{type(filters).__name__}; give a list, also for one function"
            )
        matches = matcher.match(graph, node_name_match)
        matches = [each for each in matches if all(accept(each, graph, pattern_graph) for accept in filters)]
        source = replacement_of(
            replacement, replacement_callback, graph, pattern_graph, capture_literals=capture_literals
        )
        # User code that runs between edits must find the graph whole and the module unchanged.
        at_once = replacement_callback is not None or has_listeners(graph) or graph.owning_module is not gm
        is_captured = match_modules != "path"
        replacer = MatchReplacer(graph, pattern_graph, at_once=at_once, modules_are_captured=is_captured)
        replaced, names = _replace_all(gm, matches, source, replacer)
        gm.recompile()
        if isinstance(replacement, nn.Module):
            copy_all_attributes(gm, replacement, names)
        del matches  # before the garbage collector runs again
        return replaced


# A match, its replacement, the replacement's input values, and new names for its constants.
Plan = tuple[InternalMatch, ReplacingGraph, list[Any], dict[str, str]]


def _replace_all(
    gm: GraphModule, matches: list[InternalMatch], source: Replacement, replacer: MatchReplacer
) -> tuple[list[ReplacedPatterns], Mapping[str, str]]:
    """Replace the matches; return their places, and the new names of constants in replacements."""
    plans: Iterable[Plan] = plans_of(gm, matches, source, replacer, {})
    if not replacer.at_once and matches:
        # All steps that can fail or run user code come before the first edit.
        plans = list(plans)
        discard_lazy_code(gm, gm.graph)
        expect_edits(gm.graph, len(matches))
    replaced = []
    all_names: dict[str, str] = {}
    for match, replacement, inputs, names in plans:
        all_names.update(names)
        copies = replacer.replace(match, replacement, inputs, names)
        if copies is not None:
            replaced.append(ReplacedPatterns(match.anchors[0], match.nodes_map, copies))
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
