"""The recognisers in their order, and the edits that they find together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_fxgraph.compare.difference import Change, Edit
from pytest_fxgraph.compare.edits.arguments import changed_arguments
from pytest_fxgraph.compare.edits.blocks import changed_blocks
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.exchanges import exchanged_modules
from pytest_fxgraph.compare.edits.findings import changed_findings
from pytest_fxgraph.compare.edits.interface import changed_interface
from pytest_fxgraph.compare.edits.plans import changed_collectives, changed_plans
from pytest_fxgraph.compare.edits.renamings import renamed_paths
from pytest_fxgraph.compare.edits.replacements import replaced_operators
from pytest_fxgraph.compare.edits.tensors import changed_sharing, changed_tensors, changed_updates
from pytest_fxgraph.compare.edits.throughout import changes_throughout
from pytest_fxgraph.compare.graph_index import owners_of
from pytest_fxgraph.document.capture_notes import CONSTANT, PLACEMENT, RANKS, WORLD
from pytest_fxgraph.grouping import grouped

# Each explains changes that the ones before left over.
_RECOGNISERS: tuple[Callable[[ComparedGraph], Iterator[Occurrence]], ...] = (
    changed_plans,
    changes_throughout,
    changed_blocks,
    changed_collectives,
    renamed_paths,
    changed_updates,
    replaced_operators,
    changed_sharing,
    exchanged_modules,
    changed_arguments,
    changed_interface,
    changed_tensors,
    changed_findings,
)

# A changed plan is told first, then breaks, and their consequences last.
_RANKS = {
    WORLD: -3,
    RANKS: -2,
    PLACEMENT: -2,
    "collective": -1,
    CONSTANT: 0,
    "break": 0,
    "recompile": 0,
    "skipped": 0,
    "fallback": 0,
    "reshaped": 2,
    "renumbered": 2,
    "guard": 3,
    "note": 3,
}


def recognised_edits(graphs: Sequence[ComparedGraph], changes: Sequence[Change]) -> tuple[Edit, ...]:
    """Put changes together as edits; a change belongs to one edit at most.

    Breaks come first, then the edits with most changes. `graphs` are the compared graph and the graphs inside of it.
    Changes that fit no recogniser stay in no edit.
    """
    occurrences: list[Occurrence] = []
    for graph, own in _by_graph(graphs, changes):
        left = own
        for recognise in _RECOGNISERS:
            if not left:
                break
            graph.set_changes(left)
            found = [*_without_claimed(recognise(graph), left)]
            for occurrence in found:
                graph.leave_out(occurrence.site)
            explained = {id(change) for occurrence in found for change in occurrence.changes}
            left = [change for change in left if id(change) not in explained]
            occurrences += found
    return _edits(occurrences)


def count_at_places(edits: Iterable[Edit], graphs: Iterable[ComparedGraph], changes: Iterable[Change]) -> int:
    """Count the left-out `changes`, nodes and records at the nodes of edits, or at the paths that these nodes use."""
    sites = [site for edit in edits for site in edit.sites]
    names = {name for site in sites for name in site.expected}, {name for site in sites for name in site.obtained}
    used: set[str] = set()
    left_out: list[tuple[bool, str]] = []  # whether the node is an obtained node, and its name
    paths: list[str] = []
    for graph in graphs:
        for index, own in zip((graph.expected, graph.obtained), names, strict=True):
            used.update(graph.prefix + node.target for node in index.nodes if graph.prefix + node.name in own)
        for position, partner in graph.omitted:
            node = graph.expected.nodes[position] if partner < 0 else graph.obtained.nodes[partner]
            left_out.append((partner >= 0, graph.prefix + node.name))
        paths += [graph.prefix + path for path in graph.omitted_paths]
    for change in changes:
        if change.subject in ("module", "state"):
            paths.append(change.where)
        else:
            left_out.append((change.action != "removed", change.where))
    return sum(name in names[is_obtained] for is_obtained, name in left_out) + sum(
        not used.isdisjoint(owners_of(path)) for path in paths
    )


def _by_graph(graphs: Sequence[ComparedGraph], changes: Iterable[Change]) -> list[tuple[ComparedGraph, list[Change]]]:
    """Give each change to the innermost graph whose prefix its name has."""
    innermost = sorted(graphs, key=lambda graph: -len(graph.prefix))
    of_graph: dict[int, list[Change]] = {id(graph): [] for graph in graphs}
    for change in changes:
        of_graph[id(next(graph for graph in innermost if change.where.startswith(graph.prefix)))].append(change)
    return [(graph, of_graph[id(graph)]) for graph in graphs]


def _without_claimed(occurrences: Iterable[Occurrence], changes: Sequence[Change]) -> Iterator[Occurrence]:
    """Give each change to the first occurrence that explains it; leave out occurrences that lose all changes.

    An occurrence may have no changes from the start: a long difference lists the first changes alone.
    """
    free = {id(change) for change in changes}
    for occurrence in occurrences:
        own = {id(change): change for change in occurrence.changes if id(change) in free}
        free -= own.keys()
        if own or not occurrence.changes:
            yield occurrence._replace(changes=[*own.values()])


def _edits(occurrences: Iterable[Occurrence]) -> tuple[Edit, ...]:
    groups = grouped(occurrences, lambda occurrence: occurrence[:3])
    edits = [
        Edit(kind, text, tuple(each.site for each in group), tuple(c for each in group for c in each.changes), key)
        for (kind, text, key), group in groups.items()
        if any(each.changes for each in group)
    ]
    return tuple(sorted(edits, key=lambda edit: (_RANKS.get(edit.kind, 1), -len(edit.changes))))
