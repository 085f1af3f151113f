"""Level `structure`: equal up to names, and up to an order that keeps dependencies and effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.alignment import Alignment, align
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.field_diff import changed_fields
from pytest_fxgraph.compare.graph_index import GraphIndex, graph_index_of
from pytest_fxgraph.compare.isomorphism import match_graphs
from pytest_fxgraph.compare.module_and_state_changes import module_changes, state_changes
from pytest_fxgraph.compare.node_changes import MOST_CHANGES, MOST_PRESENCES, NodeChanges, node_changes
from pytest_fxgraph.compare.order_changes import effect_changes, order_changes
from pytest_fxgraph.document.model import GraphDocument

_OF_SIGNATURE = ("inputs: ", "input structure: ", "output structure: ")


def note_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """List notes that differ."""
    return _changes(expected, obtained, lambda note: True)


def signature_note_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """List differing notes about what goes in and what comes out."""
    return _changes(expected, obtained, lambda note: note.startswith(_OF_SIGNATURE))


def _changes(expected: GraphDocument, obtained: GraphDocument, counts: Callable[[str], bool]) -> list[Change]:
    notes = [note for note in expected.notes if counts(note)]
    obtained_notes = [note for note in obtained.notes if counts(note)]
    if notes == obtained_notes:
        return []
    fields = changed_fields({"notes": notes}, {"notes": obtained_notes})
    return [Change("signature", "changed", "note", found.field, "", found.expected, found.obtained) for found in fields]


def structure_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare two documents at level `structure`."""
    difference, _ = structure_and_alignment(graph_index_of(expected), graph_index_of(obtained))
    return difference


def structure_and_alignment(expected: GraphIndex, obtained: GraphIndex) -> tuple[Difference, Alignment]:
    """Compare two sides at level `structure`, and say which node was taken for which."""
    modules = module_changes(expected, obtained)
    state = state_changes(expected, obtained)
    partner = match_graphs(expected, obtained)
    if partner is not None:
        alignment = Alignment.of_partner(expected, obtained, partner)
        found = NodeChanges()
    else:
        alignment = align(expected, obtained)
        found = _graph_changes(alignment, _paths([*modules, *state]))
    notes = note_changes(expected.document, obtained.document)
    changes = [*_without_consequences(modules, found.changes), *found.changes, *state, *notes]
    outer = Difference(
        "structure",
        tuple(changes[:MOST_LISTED]),
        renamed=_renamed(alignment),
        omitted=found.omitted + len(changes[MOST_LISTED:]),
        followed=found.followed,
    )
    inner = _inner_differences(expected, obtained)
    return _merged(outer, inner), alignment


# Modules and state are few beside nodes; this bounds what a rewritten model of thousands of tensors lists.
MOST_LISTED = MOST_PRESENCES + 3 * MOST_CHANGES


def _graph_changes(alignment: Alignment, changed_paths: set[str]) -> NodeChanges:
    """List what differs between two graphs; nothing, if the alignment shows that they are the same after all."""
    found = node_changes(alignment, changed_paths)
    moved = order_changes(alignment)
    if not found.changes and not moved:
        # Effects follow from operators and wiring, so they are worth words only where nothing else is.
        moved = effect_changes(alignment, changed_paths)
    for change in moved:
        found.add([change])
    return found


def _paths(changes: Sequence[Change]) -> set[str]:
    """Collect changed modules and state, and the modules that hold them."""
    paths: set[str] = set()
    for change in changes:
        path = change.where
        while path:
            paths.add(path)
            path = path.rpartition(".")[0]
    return paths


def _without_consequences(modules: Sequence[Change], nodes: Sequence[Change]) -> list[Change]:
    """Leave out modules that came or went with a node that is listed as such."""
    called = {text.partition("(")[0] for change in nodes for text in (change.expected, change.obtained)}
    called |= {text.removeprefix("call_module ") for text in called}
    return [change for change in modules if change.action == "changed" or change.where not in called]


def _renamed(alignment: Alignment) -> int:
    nodes, obtained_nodes = alignment.expected.graph.nodes, alignment.obtained.graph.nodes
    return sum(nodes[ours].name != obtained_nodes[theirs].name for ours, theirs in alignment.pairs())


def _inner_differences(expected: GraphIndex, obtained: GraphIndex) -> list[Difference]:
    """Compare modules that are graphs on both sides; names inside are prefixed with the module's path."""
    found = []
    for path, module in expected.modules.items():
        other = obtained.modules.get(path)
        if other is None or module.graph is None or other.graph is None or module.graph == other.graph:
            continue
        inner = structure_difference(module.graph, other.graph)
        changes = [replace(change, where=f"{path}/{change.where}") for change in inner.changes]
        found.append(replace(inner, changes=tuple(changes)))
    return found


def _merged(outer: Difference, inner: Sequence[Difference]) -> Difference:
    changes = [*outer.changes, *(change for difference in inner for change in difference.changes)]
    both = [outer, *inner]
    omitted = sum(difference.omitted for difference in both) + len(changes[MOST_LISTED:])
    return Difference(
        outer.level,
        tuple(changes[:MOST_LISTED]),
        renamed=sum(difference.renamed for difference in both),
        truncated=omitted > 0,
        omitted=omitted,
        followed=sum(difference.followed for difference in both),
    )
