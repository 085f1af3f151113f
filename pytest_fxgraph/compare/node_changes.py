"""What differs between two aligned graphs, node by node."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from pytest_fxgraph.compare.alignment import Alignment
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.field_diff import FieldChange, TextRecord, changed_fields
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.compare.isomorphism import values_agree
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import NodeRecord

# More are counted, not listed: nobody reads them, and each costs a run of deepdiff.
MOST_CHANGES = 200
# What came or went costs little, and the same in each of a thousand blocks is told in one line.
MOST_PRESENCES = 2000

_REMOVED = " (removed)"
_SUBJECTS = {"placeholder": "input", "output": "output"}


@dataclass
class NodeChanges:
    """Changes in the order of the graph, and what was left out of the list."""

    changes: list[Change] = field(default_factory=list)
    omitted: int = 0
    followed: int = 0
    _presences: int = 0

    @property
    def is_full(self) -> bool:
        """Tell whether no further node that changed is listed."""
        return len(self.changes) - self._presences >= MOST_CHANGES

    def add(self, changes: Sequence[Change]) -> None:
        """List changes of one node, or count the node once the list is full."""
        if not changes:
            return
        if self.is_full:
            self.omitted += 1
            return
        self.changes.extend(changes)

    def add_presence(self, change: Change) -> None:
        """List a node that was added or removed, or count it once there are very many."""
        if self._presences >= MOST_PRESENCES:
            self.omitted += 1
            return
        self._presences += 1
        self.changes.append(change)


def node_changes(alignment: Alignment, changed_paths: Set[str]) -> NodeChanges:
    """List nodes added, removed and changed; `changed_paths` are modules and state that are known to differ.

    A pair that reads an added node, or read a removed one, is not listed for that: the added or removed node is.
    """
    comparison = _NodeComparison(alignment, changed_paths)
    for ours, theirs in _in_reading_order(alignment):
        if theirs < 0:
            comparison.remove(ours)
        elif ours < 0:
            comparison.add(theirs)
        else:
            comparison.compare(ours, theirs)
    return comparison.found


def about_node(node: NodeRecord, partner: NodeRecord | None = None) -> Change:
    """Begin a change that is about a node; what is not known of it is taken from its partner."""
    scope = node.scope or (partner.scope if partner is not None else None)
    subject = _SUBJECTS.get(node.op, "node")
    where = node.target if subject == "input" else node.name
    before = "" if partner is None else partner.target if subject == "input" else partner.name
    change = Change("operators", "changed", subject, where, scope=scope, source=node.source)
    return replace(change, expected_node=before if before != where else "")


class _NodeComparison:
    """The comparison under way: names of partners, and which values are known to differ."""

    def __init__(self, alignment: Alignment, changed_paths: Set[str]) -> None:
        self.found = NodeChanges()
        self._alignment = alignment
        self._expected, self._obtained = alignment.expected, alignment.obtained
        self._changed_paths = changed_paths
        self._suspects: set[int] = set(alignment.added())  # obtained nodes whose readers may differ in value
        nodes, obtained_nodes = self._expected.graph.nodes, self._obtained.graph.nodes
        self._added = {obtained_nodes[theirs].name for theirs in alignment.added()}
        # Expected texts are read with the obtained names, so that a renumbering is no change.
        self._names = {node.name: node.name + _REMOVED for node in nodes}
        self._names |= {nodes[ours].name: obtained_nodes[theirs].name for ours, theirs in alignment.pairs()}

    def remove(self, ours: int) -> None:
        node = self._expected.graph.nodes[ours]
        text = self._expected.call_text(node)
        self._add_presence("removed", self._expected, ours, replace(about_node(node), expected=text))

    def add(self, theirs: int) -> None:
        node = self._obtained.graph.nodes[theirs]
        text = self._obtained.call_text(node)
        self._add_presence("added", self._obtained, theirs, replace(about_node(node), obtained=text))

    def compare(self, ours: int, theirs: int) -> None:
        changes: list[Change] = []
        is_changed = not self._is_same_call(ours, theirs)
        if is_changed and self.found.is_full:
            self.found.omitted += 1
        elif is_changed:
            changes = self._call_changes(self._expected.graph.nodes[ours], self._obtained.graph.nodes[theirs])
        self.found.add(changes + self._value_changes(ours, theirs, is_changed))

    def _add_presence(self, action: str, side: GraphIndex, position: int, change: Change) -> None:
        kind = "operators" if change.subject == "node" else "signature"
        self.found.add_presence(replace(change, kind=kind, action=action, operator=side.operator(position)))

    def _is_same_call(self, ours: int, theirs: int) -> bool:
        graph, obtained_graph = self._expected.graph, self._obtained.graph
        if graph.labels[ours] != obtained_graph.labels[theirs]:
            return False
        inputs = zip(graph.inputs[ours], obtained_graph.inputs[theirs], strict=True)
        return all(self._is_explained(*pair) for pair in inputs)

    def _is_explained(self, ours: int, theirs: int) -> bool:
        """Tell whether two inputs are partners, or one of them is listed as added or removed."""
        partner = self._alignment.partner[ours]
        return partner in (theirs, -1) or self._alignment.origin[theirs] < 0

    def _call_changes(self, node: NodeRecord, obtained: NodeRecord) -> list[Change]:
        shows_op = node.op != obtained.op
        fields = changed_fields(_call_record(self._renamed(node), shows_op), _call_record(obtained, shows_op))
        about = about_node(obtained, node)
        return [_call_change(about, found) for found in fields if not self._is_explained_text(found)]

    def _is_explained_text(self, found: FieldChange) -> bool:
        """Tell whether two texts differ by references alone, each to a node that is listed as added or removed."""
        ours, theirs = references(found.expected), references(found.obtained)
        if not ours or len(ours) != len(theirs):
            return False
        bare = rename_references(found.expected.replace(_REMOVED, ""), dict.fromkeys(ours, ""))
        if bare != rename_references(found.obtained, dict.fromkeys(theirs, "")):
            return False
        is_removed = [f"%{name}{_REMOVED}" in found.expected for name in ours]
        pairs = zip(ours, theirs, is_removed, strict=True)
        return all(removed or other in self._added or name == other for name, other, removed in pairs)

    def _renamed(self, node: NodeRecord) -> NodeRecord:
        args = tuple(rename_references(text, self._names) for text in node.args)
        kwargs = tuple((keyword, rename_references(text, self._names)) for keyword, text in node.kwargs)
        return replace(node, args=args, kwargs=kwargs)

    def _value_changes(self, ours: int, theirs: int, is_changed: bool) -> list[Change]:
        """List a value that differs by itself; one that differs because of something listed is only counted."""
        node, obtained = self._expected.graph.nodes[ours], self._obtained.graph.nodes[theirs]
        if node.op == "output":
            return self._output_values(ours, theirs)
        if values_agree(node.value, obtained.value):
            if is_changed:
                self._suspects.add(theirs)
            return []
        follows = is_changed or self._has_cause(ours, theirs)
        self._suspects.add(theirs)
        if follows and node.op != "placeholder":
            self.found.followed += 1
            return []
        return [_value_change(node, obtained, node.value, obtained.value)]

    def _has_cause(self, ours: int, theirs: int) -> bool:
        if self._obtained.graph.nodes[theirs].target in self._changed_paths:
            return True
        inputs = self._obtained.graph.inputs[theirs]
        is_rewired = tuple(self._alignment.partner[read] for read in self._expected.graph.inputs[ours]) != inputs
        return is_rewired or not self._suspects.isdisjoint(inputs)

    def _output_values(self, ours: int, theirs: int) -> list[Change]:
        node, obtained = self._expected.graph.nodes[ours], self._obtained.graph.nodes[theirs]
        is_same_form = self._expected.graph.labels[ours] == self._obtained.graph.labels[theirs]
        if is_same_form and not self._same_values(ours, theirs):
            texts = _values_text(self._expected, ours), _values_text(self._obtained, theirs)
            return [_value_change(node, obtained, *texts)]
        if values_agree(node.value, obtained.value):
            return []
        return [_value_change(node, obtained, node.value, obtained.value)]

    def _same_values(self, ours: int, theirs: int) -> bool:
        nodes, obtained_nodes = self._expected.graph.nodes, self._obtained.graph.nodes
        inputs = zip(self._expected.graph.inputs[ours], self._obtained.graph.inputs[theirs], strict=True)
        return all(values_agree(nodes[read].value, obtained_nodes[other].value) for read, other in inputs)


def _in_reading_order(alignment: Alignment) -> list[tuple[int, int]]:
    """List pairs and lone nodes in the order of the obtained graph; removed ones after what stood before them."""
    removed_after: dict[int, list[int]] = {}
    last = -1
    for ours, theirs in enumerate(alignment.partner):
        if theirs >= 0:
            last = theirs
        else:
            removed_after.setdefault(last, []).append(ours)
    order = [(ours, -1) for ours in removed_after.get(-1, ())]
    for theirs, ours in enumerate(alignment.origin):
        order.append((ours, theirs))
        order.extend((lone, -1) for lone in removed_after.get(theirs, ()))
    return order


def _call_record(node: NodeRecord, shows_op: bool) -> TextRecord:
    target = f"{node.op} {node.target}" if shows_op else node.target
    return {"target": target, "args": list(node.args), "kwargs": dict(node.kwargs)}


def _call_change(about: Change, found: FieldChange) -> Change:
    kind, name = _argument_class(found), found.field
    if found.field == "target":
        kind = "operators"
    if about.subject == "input":
        kind, name = "signature", "default" if name.startswith("args") else name
    elif about.subject == "output" and kind == "arguments":
        kind = "signature"
    return replace(about, kind=kind, field=name, expected=found.expected, obtained=found.obtained)


def _value_change(node: NodeRecord, obtained: NodeRecord, value: str | None, obtained_value: str | None) -> Change:
    change = replace(about_node(obtained, node), kind="signature", field="value")
    return replace(change, expected=value or "", obtained=obtained_value or "")


def _argument_class(found: FieldChange) -> str:
    return "arguments" if references(found.expected) == references(found.obtained) else "wiring"


def _values_text(side: GraphIndex, position: int) -> str:
    """Write what an output returns with values in place of names."""
    node = side.graph.nodes[position]
    values = {side.graph.nodes[read].name: side.graph.nodes[read].value or "?" for read in side.graph.inputs[position]}
    return ", ".join(rename_references(text, values).replace("%", "") for text in node.args)
