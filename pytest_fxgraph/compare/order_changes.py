"""Which nodes moved past others that they must stay behind or before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence, Set
from dataclasses import replace

from pytest_fxgraph.compare.alignment import Alignment
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.graph_index import accesses
from pytest_fxgraph.compare.isomorphism import same_storage_order
from pytest_fxgraph.compare.node_changes import about_node


def order_changes(alignment: Alignment) -> list[Change]:
    """List inputs and nodes with effects whose order among the paired ones differs."""
    changes: list[Change] = []
    chains, obtained_chains = alignment.expected.effects.chains, alignment.obtained.effects.chains
    for key in chains.keys() & obtained_chains.keys():
        others = set(obtained_chains[key])
        both = [position for position in chains[key] if alignment.partner[position] in others]
        changes.extend(_chain_changes(alignment, both))
    return _without_repetition(changes + _storage_changes(alignment))


def effect_changes(alignment: Alignment, changed_paths: Set[str]) -> list[Change]:
    """List paired nodes whose effects are not of the same kinds; where all are, storages that are shared otherwise.

    A module or state that is known to differ, by `changed_paths`, explains the effects of the node that uses it.
    """
    changes = []
    is_explained = False
    for ours, theirs in alignment.pairs():
        if alignment.expected.effects.kinds[ours] == alignment.obtained.effects.kinds[theirs]:
            continue
        nodes = alignment.expected.graph.nodes[ours], alignment.obtained.graph.nodes[theirs]
        if nodes[1].target in changed_paths:
            is_explained = True
            continue
        texts = [", ".join(node.effects) or "none" for node in nodes]
        about = about_node(nodes[1], nodes[0])
        changes.append(replace(about, kind="order", field="effects", expected=texts[0], obtained=texts[1]))
    if changes or is_explained or same_storage_order(alignment.expected, alignment.obtained, alignment.partner):
        return changes
    return [Change("order", "changed", "node", "the graph", "effects", "other values share storage", "these do")]


def _chain_changes(alignment: Alignment, chain: Sequence[int]) -> list[Change]:
    partners = [alignment.partner[position] for position in chain]
    in_place = _longest_increasing(partners)
    if len(in_place) == len(partners):
        return []
    obtained_order = sorted(partners)
    obtained_places = {partner: place for place, partner in enumerate(obtained_order)}
    changes = []
    for place, ours in enumerate(chain):
        if place in in_place:
            continue
        before = alignment.expected.graph.nodes[chain[place - 1]].name if place else ""
        obtained_place = obtained_places[partners[place]]
        after = alignment.obtained.graph.nodes[obtained_order[obtained_place - 1]].name if obtained_place else ""
        changes.append(_moved(alignment, ours, _after(before), _after(after)))
    return changes


def _after(name: str) -> str:
    return f"after {name}" if name else "first of its kind"


def _moved(alignment: Alignment, ours: int, expected: str, obtained: str) -> Change:
    nodes = alignment.expected.graph.nodes[ours], alignment.obtained.graph.nodes[alignment.partner[ours]]
    about = about_node(nodes[1], nodes[0])
    kind = "order" if about.subject == "node" else "signature"
    return replace(about, kind=kind, action="moved", field="order", expected=expected, obtained=obtained)


def _longest_increasing(numbers: Sequence[int]) -> set[int]:
    """Give the places of a longest increasing subsequence; numbers are distinct."""
    ends: list[int] = []  # the smallest last number of an increasing run of each length
    ends_at: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(ends_at[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        ends_at[length : length + 1] = [place]
    places: set[int] = set()
    place = ends_at[-1] if ends_at else -1
    while place >= 0:
        places.add(place)
        place = before[place]
    return places


def _storage_changes(alignment: Alignment) -> list[Change]:
    """List nodes that see another number of the writes that both graphs have."""
    expected = accesses(alignment.expected.effects, lambda ours: alignment.partner[ours] >= 0)
    obtained = accesses(alignment.obtained.effects, lambda theirs: alignment.origin[theirs] >= 0)
    changes = []
    for ours, touched in expected.items():
        theirs = obtained.get(alignment.partner[ours], ())
        epochs = sorted((kind, epoch) for kind, _, epoch in touched)
        obtained_epochs = sorted((kind, epoch) for kind, _, epoch in theirs)
        if len(epochs) == len(obtained_epochs) and epochs != obtained_epochs:
            before, after = max(epoch for _, epoch in epochs), max(epoch for _, epoch in obtained_epochs)
            changes.append(_moved(alignment, ours, _writes(before), _writes(after)))
    return changes


def _writes(count: int) -> str:
    if not count:
        return "before the first write to its storage"
    return f"after {count} write{'s' if count > 1 else ''} to its storage"


def _without_repetition(changes: Sequence[Change]) -> list[Change]:
    """Keep the first change of each node."""
    kept: dict[tuple[str, str], Change] = {}
    for change in changes:
        kept.setdefault((change.subject, change.where), change)
    return list(kept.values())
