"""Level `structure`: equality up to names, and up to an order that keeps dependencies and effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.changed_records import MOST_RECORDS, ChangedRecords, FieldChanges, changed_fields
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph
from pytest_fxgraph.compare.edits.recognition import count_at_places, recognised_edits
from pytest_fxgraph.compare.graph_index import GraphIndex, graph_index_of, owners_of
from pytest_fxgraph.compare.isomorphism import Alignment
from pytest_fxgraph.compare.node_changes import NodeComparison, effect_changes, order_changes
from pytest_fxgraph.compare.record_changes import (
    add_capture_notes,
    add_modules,
    add_state,
    note_changes,
    record_changes,
)


def structure_and_alignment(expected: GraphIndex, obtained: GraphIndex) -> tuple[Difference, Alignment]:
    """Compare two documents at level `structure`, and return the alignment of their nodes."""
    records = ChangedRecords()
    comparison = _Comparison(expected, obtained, records)
    difference = comparison.difference(changed_fields(records))
    changes, more = difference.changes[:MOST_RECORDS], difference.changes[MOST_RECORDS:]
    graphs = [*comparison.graphs()] if changes else []
    edits = recognised_edits(graphs, changes)
    omitted = difference.omitted + len(more)
    difference = replace(
        difference,
        changes=changes,
        truncated=omitted > 0,
        omitted=omitted,
        edits=edits,
        omitted_in_edits=count_at_places(edits, graphs, more) if omitted else 0,
        records=(records.expected, records.obtained),
        alignment=comparison.alignment,
    )
    return difference, comparison.alignment


class _Comparison:
    """Two aligned documents and their differing records; `difference` puts deepdiff's findings in words."""

    def __init__(self, expected: GraphIndex, obtained: GraphIndex, records: ChangedRecords) -> None:
        self._expected, self._obtained, self._records = expected, obtained, records
        paths = add_modules(expected, obtained, records) + add_state(expected, obtained, records)
        self._paths = {owner for path in paths for owner in owners_of(path)}
        self.alignment = align(expected, obtained)
        is_same = self.alignment.is_isomorphism
        self._nodes = None if is_same else NodeComparison(self.alignment, self._paths, records)
        self._captured = add_capture_notes(expected.document, obtained.document, records)
        self._inner = [*self._inner_comparisons()]

    def _inner_comparisons(self) -> Iterator[tuple[str, _Comparison]]:
        """Compare modules that are graphs on both sides."""
        for path, module in self._expected.modules.items():
            other = self._obtained.modules.get(path)
            if other is None or module.graph is None or other.graph is None or module.graph == other.graph:
                continue
            graphs = graph_index_of(module.graph), graph_index_of(other.graph)
            inner = _Comparison(*graphs, self._records.add_graph(path))
            self.alignment.inner[path] = inner.alignment
            yield path, inner

    def graphs(self, prefix: str = "") -> Iterator[ComparedGraph]:
        """Yield the compared graph and the graphs inside of it, with the beginning of the names in their changes."""
        nodes = self._nodes.omitted if self._nodes is not None else ()
        yield ComparedGraph(self.alignment, prefix, nodes, self._records.omitted)
        for path, comparison in self._inner:
            yield from comparison.graphs(f"{prefix}{path}/")

    def difference(self, fields: FieldChanges) -> Difference:
        """List the changes, inner graphs last; a name in an inner graph begins with the module's path."""
        nodes, moved = self._node_changes(fields)
        modules, state = (
            record_changes(section, self._expected, self._obtained, self._records, fields)
            for section in ("modules", "state")
        )
        modules = _without_consequences(modules, nodes)
        omitted, followed = len(self._records.omitted), 0
        if self._nodes is not None:
            room = max(self._nodes.room, 0)
            omitted, followed = omitted + len(self._nodes.omitted) + len(moved[room:]), self._nodes.followed
            moved = moved[:room]
        changes = [*modules, *nodes, *moved, *state, *note_changes(self._records, fields)]
        changes = [*self._captured, *changes]
        renamed = _renamed(self.alignment)
        for path, comparison in self._inner:
            inner = comparison.difference(fields)
            changes += [replace(change, where=f"{path}/{change.where}") for change in inner.changes]
            omitted, renamed, followed = omitted + inner.omitted, renamed + inner.renamed, followed + inner.followed
        return Difference("structure", tuple(changes), renamed=renamed, omitted=omitted, followed=followed)

    def _node_changes(self, fields: FieldChanges) -> tuple[list[Change], list[Change]]:
        """List changed nodes, and moved nodes; both lists are empty for equal graphs."""
        if self._nodes is None:
            return [], []
        nodes, moved = self._nodes.changes(fields), order_changes(self.alignment)
        if not nodes and not moved:
            # Effects follow from operators and wiring, so they are reported only if nothing else differs.
            moved = effect_changes(self.alignment, self._paths)
        return nodes, moved


def _without_consequences(modules: Sequence[Change], nodes: Sequence[Change]) -> list[Change]:
    """Leave out added and removed modules if the list has the node that calls them."""
    called = {
        text.removeprefix("self.").partition("(")[0] for change in nodes for text in (change.expected, change.obtained)
    }
    called |= {text.removeprefix("call_module ") for text in called}
    return [change for change in modules if change.action == "changed" or change.where not in called]


def _renamed(alignment: Alignment) -> int:
    nodes, obtained_nodes = alignment.expected.nodes, alignment.obtained.nodes
    return sum(nodes[position].name != obtained_nodes[partner].name for position, partner in alignment.pairs())
