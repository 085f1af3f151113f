"""Nodes that moved past a node whose order with them counts."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.graph_index import access_epochs
from pytest_fxgraph.compare.isomorphism import Alignment, same_storage_order
from pytest_fxgraph.compare.node_changes import about_node
from pytest_fxgraph.compare.sequence_alignment import longest_increasing


def order_changes(alignment: Alignment) -> list[Change]:
    """List inputs and nodes with effects whose order among the paired ones differs."""
    changes: list[Change] = []
    chains, obtained_chains = alignment.expected.effects.chains, alignment.obtained.effects.chains
    for key in chains.keys() & obtained_chains.keys():
        others = set(obtained_chains[key])
        both = [position for position in chains[key] if alignment.obtained_of[position] in others]
        changes.extend(_chain_changes(alignment, both))
    return _without_repetition(changes + _storage_changes(alignment))


def effect_changes(alignment: Alignment, changed_paths: Set[str]) -> list[Change]:
    """List paired nodes with effects of different kinds; if there are none, values that share storage otherwise.

    A changed module or state, listed in `changed_paths`, explains the effects of the node that uses it.
    """
    changes = []
    is_explained = False
    for position, partner in alignment.pairs():
        if alignment.expected.effects.kinds[position] == alignment.obtained.effects.kinds[partner]:
            continue
        nodes = alignment.expected.nodes[position], alignment.obtained.nodes[partner]
        if nodes[1].target in changed_paths:
            is_explained = True
            continue
        texts = [", ".join(node.effects) or "none" for node in nodes]
        about = about_node(nodes[1], nodes[0])
        changes.append(replace(about, kind="order", field="effects", expected=texts[0], obtained=texts[1]))
    if changes or is_explained or same_storage_order(alignment.expected, alignment.obtained, alignment.obtained_of):
        return changes
    return [Change("order", "changed", "node", "the graph", "effects", "other values share storage", "these do")]


def _chain_changes(alignment: Alignment, chain: Sequence[int]) -> list[Change]:
    partners = [alignment.obtained_of[position] for position in chain]
    in_place = set(longest_increasing(partners))
    if len(in_place) == len(partners):
        return []
    obtained_order = sorted(partners)
    obtained_places = {partner: place for place, partner in enumerate(obtained_order)}
    changes = []
    for place, position in enumerate(chain):
        if place in in_place:
            continue
        before = alignment.expected.nodes[chain[place - 1]].name if place else ""
        obtained_place = obtained_places[partners[place]]
        after = alignment.obtained.nodes[obtained_order[obtained_place - 1]].name if obtained_place else ""
        changes.append(_moved(alignment, position, _after(before), _after(after)))
    return changes


def _after(name: str) -> str:
    return f"after {name}" if name else "first of its kind"


def _moved(alignment: Alignment, position: int, expected: str, obtained: str) -> Change:
    nodes = alignment.expected.nodes[position], alignment.obtained.nodes[alignment.obtained_of[position]]
    about = about_node(nodes[1], nodes[0])
    kind = "order" if about.subject == "node" else "signature"
    return replace(about, kind=kind, action="moved", field="order", expected=expected, obtained=obtained)


def _storage_changes(alignment: Alignment) -> list[Change]:
    """List nodes that see another number of the writes in both graphs."""
    expected = access_epochs(alignment.expected.effects, lambda position: alignment.obtained_of[position] >= 0)
    obtained = access_epochs(alignment.obtained.effects, lambda partner: alignment.expected_of[partner] >= 0)
    changes = []
    for position, epochs in expected.items():
        obtained_epochs = obtained.get(alignment.obtained_of[position], ())
        if len(epochs) == len(obtained_epochs) and epochs != obtained_epochs:
            before, after = max(epoch for _, epoch in epochs), max(epoch for _, epoch in obtained_epochs)
            changes.append(_moved(alignment, position, _writes(before), _writes(after)))
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
