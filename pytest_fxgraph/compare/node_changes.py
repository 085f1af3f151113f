"""Changes of two aligned graphs, node by node: other fields, added and removed nodes, nodes in another order."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from pytest_fxgraph.compare.changed_records import ChangedRecords, FieldChange, FieldChanges
from pytest_fxgraph.compare.close_numbers import argument_distance
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.graph_index import GraphIndex, access_epochs
from pytest_fxgraph.compare.isomorphism import Alignment, same_storage_order, values_agree
from pytest_fxgraph.compare.sequence_alignment import longest_increasing
from pytest_fxgraph.document.literals import references, rename_references, without_references
from pytest_fxgraph.document.model import NodeRecord, with_texts

# Further changes are counted, not listed: nobody reads them, and deepdiff needs 0.4 ms for each.
MOST_CHANGES = 200
# An added or removed node costs little, and a report folds the same node of a thousand blocks into one line.
MOST_PRESENCES = 2000

_REMOVED = " (removed)"
_SUBJECTS = {"placeholder": "input", "output": "output"}


def about_node(node: NodeRecord, partner: NodeRecord | None = None) -> Change:
    """Begin a change of a node; a field that the node lacks comes from its partner."""
    scope = node.scope or (partner.scope if partner is not None else None)
    subject = _SUBJECTS.get(node.op, "node")
    where = node.target if subject == "input" else node.name
    before = "" if partner is None else partner.target if subject == "input" else partner.name
    change = Change("operators", "changed", subject, where, scope=scope, source=node.source)
    return replace(change, expected_node=before if before != where else "")


class NodeComparison:
    """Added, removed and changed nodes: first as records, then, with deepdiff's fields, in words.

    `changed_paths` are the differing modules and state. A node that only reads an added node in place of a removed
    node is not listed, because the added and the removed node are.
    """

    def __init__(self, alignment: Alignment, changed_paths: Set[str], records: ChangedRecords) -> None:
        self.omitted: list[tuple[int, int]] = []  # differing nodes that are not listed
        self.followed = 0  # values that differ only because of a listed change
        self._alignment = alignment
        self._expected, self._obtained = alignment.expected, alignment.obtained
        self._changed_paths = changed_paths
        self._records = records
        self._listed: list[tuple[int, int]] = []  # differing pairs, and lone nodes with -1 for the partner
        self.room = MOST_CHANGES  # for changes that may still be listed
        self._lone_room = MOST_PRESENCES
        added = alignment.added()
        self._suspects = set(added)  # obtained nodes whose readers may differ in value
        nodes, obtained_nodes = self._expected.nodes, self._obtained.nodes
        self._added = {obtained_nodes[partner].name for partner in added}
        self._passed_by = {nodes[position].name for position in alignment.removed() if self._expected.inputs[position]}
        # Expected texts get the obtained names, so that a renumbering is no change.
        self._names = {node.name: node.name + _REMOVED for node in nodes}
        self._names |= {nodes[position].name: obtained_nodes[partner].name for position, partner in alignment.pairs()}
        for position, partner in in_reading_order(alignment):
            if position < 0 or partner < 0:
                self._add_lone(position, partner)
            else:
                self._compare(position, partner)

    def changes(self, fields: FieldChanges) -> list[Change]:
        """Put all changes in words, in the order of the graph; `fields` are the result of `changed_fields`."""
        changes: list[Change] = []
        for position, partner in self._listed:
            if position < 0 or partner < 0:
                changes.append(self._presence(position, partner))
                continue
            node, obtained = self._expected.nodes[position], self._obtained.nodes[partner]
            about = about_node(obtained, node)
            changed = self._records.fields_of("nodes", obtained.name, fields)
            changes += [_field_change(about, found) for found in changed if not self._is_explained_text(found)]
        return changes

    def _add_lone(self, position: int, partner: int) -> None:
        if self._lone_room <= 0:
            self.omitted.append((position, partner))
            return
        self._lone_room -= 1
        self._listed.append((position, partner))
        if partner < 0:
            node = self._expected.nodes[position]
            self._records.add("nodes", self._names[node.name], _call_record(self._renamed(node), shows_op=True), None)
        else:
            node = self._obtained.nodes[partner]
            self._records.add("nodes", node.name, None, _call_record(node, shows_op=True))

    def _compare(self, position: int, partner: int) -> None:
        is_changed = not self._is_same_call(position, partner)
        values = self._changed_value(position, partner, is_changed)
        if not (is_changed or values):
            return
        if self.room <= 0:
            self.omitted.append((position, partner))
            return
        self._listed.append((position, partner))
        node, obtained = self._expected.nodes[position], self._obtained.nodes[partner]
        shows_op, shows_meta = node.op != obtained.op, bool(node.meta or obtained.meta)
        pair = self._renamed(node), obtained
        records = [_call_record(each, shows_op, shows_meta) if is_changed else {} for each in pair]
        for record, value in zip(records, values, strict=False):
            record["value"] = value
        # deepdiff finds at least this number of changes; it must not find more than the list can hold.
        self.room -= sum(text != records[1][name] for name, text in records[0].items())
        self._records.add("nodes", obtained.name, *records)

    def _presence(self, position: int, partner: int) -> Change:
        index, position = (self._expected, position) if partner < 0 else (self._obtained, partner)
        node = index.nodes[position]
        about, text = about_node(node), index.call_text(node)
        kind = "operators" if about.subject == "node" else "signature"
        about = replace(about, kind=kind, operator=index.operator(position))
        if partner < 0:
            return replace(about, action="removed", expected=text)
        return replace(about, action="added", obtained=text)

    def _is_same_call(self, position: int, partner: int) -> bool:
        graph, obtained_graph = self._expected, self._obtained
        if graph.labels[position] != obtained_graph.labels[partner]:
            return False
        inputs = zip(graph.inputs[position], obtained_graph.inputs[partner], strict=True)
        return all(self._is_explained(*pair) for pair in inputs)

    def _is_explained(self, read: int, obtained_read: int) -> bool:
        """Return whether two inputs are partners, or the listed nodes explain that they differ.

        A reader of an added node, or of an input of a removed node, is explained. A removed tensor has no inputs.
        """
        partner = self._alignment.obtained_of[read]
        is_passed_by = partner < 0 and bool(self._expected.inputs[read])
        return is_passed_by or partner == obtained_read or self._alignment.expected_of[obtained_read] < 0

    def _is_explained_text(self, found: FieldChange) -> bool:
        """Return whether two texts differ only by references to listed added or removed nodes."""
        names, obtained_names = references(found.expected), references(found.obtained)
        if not names:
            return False
        if without_references(found.expected.replace(_REMOVED, "")) != without_references(found.obtained):
            return False
        is_removed = [name in self._passed_by and f"%{name}{_REMOVED}" in found.expected for name in names]
        pairs = zip(names, obtained_names, is_removed, strict=True)
        return all(removed or other in self._added or name == other for name, other, removed in pairs)

    def _renamed(self, node: NodeRecord) -> NodeRecord:
        return with_texts(node, lambda text: rename_references(text, self._names))

    def _changed_value(self, position: int, partner: int, is_changed: bool) -> tuple[str | None, ...]:
        """Return both values if they differ by themselves; only count a value that follows from a listed change."""
        node, obtained = self._expected.nodes[position], self._obtained.nodes[partner]
        if node.op == "output":
            return self._changed_output(position, partner)
        if values_agree(node.value, obtained.value):
            if is_changed:
                self._suspects.add(partner)
            return ()
        follows = is_changed or self._has_cause(position, partner)
        self._suspects.add(partner)
        if follows and node.op != "placeholder":
            self.followed += 1
            return ()
        return node.value, obtained.value

    def _has_cause(self, position: int, partner: int) -> bool:
        if self._obtained.nodes[partner].target in self._changed_paths:
            return True
        inputs = self._obtained.inputs[partner]
        is_rewired = tuple(self._alignment.obtained_of[read] for read in self._expected.inputs[position]) != inputs
        return is_rewired or not self._suspects.isdisjoint(inputs)

    def _changed_output(self, position: int, partner: int) -> tuple[str | None, ...]:
        node, obtained = self._expected.nodes[position], self._obtained.nodes[partner]
        is_same_form = self._expected.labels[position] == self._obtained.labels[partner]
        if is_same_form and not self._same_values(position, partner):
            return _values_text(self._expected, position), _values_text(self._obtained, partner)
        return () if values_agree(node.value, obtained.value) else (node.value, obtained.value)

    def _same_values(self, position: int, partner: int) -> bool:
        nodes, obtained_nodes = self._expected.nodes, self._obtained.nodes
        inputs = zip(self._expected.inputs[position], self._obtained.inputs[partner], strict=True)
        return all(values_agree(nodes[read].value, obtained_nodes[other].value) for read, other in inputs)


def in_reading_order(alignment: Alignment) -> list[tuple[int, int]]:
    """List pairs of positions in the order of the obtained graph; -1 stands for the partner of a lone node.

    A removed node comes after its predecessor.
    """
    removed_after: dict[int, list[int]] = {}
    last = -1
    for position, partner in enumerate(alignment.obtained_of):
        if partner >= 0:
            last = partner
        else:
            removed_after.setdefault(last, []).append(position)
    order = [(position, -1) for position in removed_after.get(-1, ())]
    for partner, position in enumerate(alignment.expected_of):
        order.append((position, partner))
        order.extend((lone, -1) for lone in removed_after.get(partner, ()))
    return order


def _call_record(node: NodeRecord, shows_op: bool, shows_meta: bool = False) -> dict[str, Any]:
    target = f"{node.op} {node.target}" if shows_op else node.target
    record = {"target": target, "args": list(node.args), "kwargs": dict(node.kwargs)}
    return {**record, "meta": dict(node.meta)} if shows_meta else record


def _field_change(about: Change, found: FieldChange) -> Change:
    kind, name = "wiring", found.field
    if name == "target":
        kind = "operators"
    elif name == "value":
        kind = "signature"
    elif references(found.expected) == references(found.obtained):
        kind = "arguments"
    if about.subject == "input":
        kind, name = "signature", "default" if name.startswith("args") else name
    elif about.subject == "output" and kind == "arguments":
        kind = "signature"
    remark = argument_distance(found.expected, found.obtained) if name not in ("target", "value") else ""
    return replace(about, kind=kind, field=name, expected=found.expected, obtained=found.obtained, remark=remark)


def _values_text(index: GraphIndex, position: int) -> str:
    """Write the arguments of an output with values in place of names."""
    node, nodes = index.nodes[position], index.nodes
    values = {nodes[read].name: nodes[read].value or "?" for read in index.inputs[position]}
    return ", ".join(rename_references(text, values).replace("%", "") for text in node.args)


# Nodes that moved past a node whose order with them counts.


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

    A changed module or state, listed in `changed_paths`, explains the effects of the node that uses it. A module that
    now writes, or no longer writes, also explains the nodes that read what it writes.
    """
    changes = []
    expected, obtained = alignment.expected.effects.kinds, alignment.obtained.effects.kinds
    different = [(one, other) for one, other in alignment.pairs() if expected[one] != obtained[other]]
    explained = {other for _, other in different if alignment.obtained.nodes[other].target in changed_paths}
    if any(
        other in explained and ("write" in expected[one]) != ("write" in obtained[other]) for one, other in different
    ):
        explained.update(o for one, o in different if _without_reads(expected[one]) == _without_reads(obtained[o]))
    for position, partner in different:
        if partner in explained:
            continue
        nodes = alignment.expected.nodes[position], alignment.obtained.nodes[partner]
        texts = [", ".join(node.effects) or "none" for node in nodes]
        about = about_node(nodes[1], nodes[0])
        changes.append(replace(about, kind="order", field="effects", expected=texts[0], obtained=texts[1]))
    if changes or explained or same_storage_order(alignment.expected, alignment.obtained, alignment.obtained_of):
        return changes
    return [Change("order", "changed", "node", "the graph", "effects", "other values share storage", "these do")]


def _without_reads(kinds: Sequence[str]) -> list[str]:
    return [kind for kind in kinds if kind != "read"]


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
