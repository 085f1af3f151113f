"""Level `signature`: what goes in, what comes out, and the names, shapes and dtypes of the state."""

from __future__ import annotations

from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.field_diff import changed_fields
from pytest_fxgraph.compare.isomorphism import values_agree
from pytest_fxgraph.compare.structure import signature_note_changes
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord


def signature_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare inputs in order, the structure and values of outputs, and the state by path."""
    changes = _input_changes(expected, obtained) + _output_changes(expected, obtained)
    changes += _state_changes(expected, obtained) + signature_note_changes(expected, obtained)
    return Difference("signature", tuple(changes))


def _input_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    inputs, obtained_inputs = _nodes(expected, "placeholder"), _nodes(obtained, "placeholder")
    names, obtained_names = [node.target for node in inputs], [node.target for node in obtained_inputs]
    if names != obtained_names:
        return _name_changes(names, obtained_names)
    changes = []
    for node, other in zip(inputs, obtained_inputs, strict=True):
        about = Change("signature", "changed", "input", node.target)
        defaults = ", ".join(node.args), ", ".join(other.args)
        if defaults[0] != defaults[1]:
            changes.append(_with(about, "default", *defaults))
        if not values_agree(node.value, other.value):
            changes.append(_with(about, "value", node.value or "", other.value or ""))
    return changes


def _name_changes(names: list[str], obtained_names: list[str]) -> list[Change]:
    removed = [name for name in names if name not in set(obtained_names)]
    added = [name for name in obtained_names if name not in set(names)]
    changes = [Change("signature", "removed", "input", name, expected=name) for name in removed]
    changes += [Change("signature", "added", "input", name, obtained=name) for name in added]
    if changes:
        return changes
    return [
        Change("signature", "moved", "input", obtained_names[0], "order", ", ".join(names), ", ".join(obtained_names))
    ]


def _output_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    changes = []
    outputs, obtained_outputs = _nodes(expected, "output"), _nodes(obtained, "output")
    if len(outputs) != len(obtained_outputs):
        texts = f"{len(outputs)} outputs", f"{len(obtained_outputs)} outputs"
        return [Change("signature", "changed", "output", "output", "args", *texts)]
    for node, other in zip(outputs, obtained_outputs, strict=True):
        about = Change("signature", "changed", "output", other.name)
        structure, obtained_structure = _structure(node), _structure(other)
        if structure != obtained_structure:
            changes.append(_with(about, "args[0]", structure, obtained_structure))
        elif not _values_agree(expected, obtained, node, other):
            changes.append(_with(about, "value", _values(expected, node), _values(obtained, other)))
    return changes


def _state_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    ours = {record.path: record.value for record in expected.state}
    theirs = {record.path: record.value for record in obtained.state}
    changes = []
    for path in dict.fromkeys([*ours, *theirs]):
        about = Change("state", "changed", "state", path)
        if path not in theirs:
            changes.append(Change("state", "removed", "state", path, expected=ours[path]))
        elif path not in ours:
            changes.append(Change("state", "added", "state", path, obtained=theirs[path]))
        else:
            fields = changed_fields({"value": ours[path]}, {"value": theirs[path]})
            changes.extend(_with(about, found.field, found.expected, found.obtained) for found in fields)
    return changes


def _with(about: Change, field: str, expected: str, obtained: str) -> Change:
    return Change(about.kind, about.action, about.subject, about.where, field, expected, obtained)


def _nodes(document: GraphDocument, op: str) -> list[NodeRecord]:
    return [node for node in document.nodes if node.op == op]


def _structure(node: NodeRecord) -> str:
    return ", ".join(rename_references(text, dict.fromkeys(references(text), "")) for text in node.args)


def _read(document: GraphDocument, node: NodeRecord) -> list[str | None]:
    values = {other.name: other.value for other in document.nodes}
    return [values.get(name) for text in node.args for name in references(text)]


def _values(document: GraphDocument, node: NodeRecord) -> str:
    return ", ".join(value or "?" for value in _read(document, node)) or node.value or ""


def _values_agree(expected: GraphDocument, obtained: GraphDocument, node: NodeRecord, other: NodeRecord) -> bool:
    values = zip(_read(expected, node), _read(obtained, other), strict=True)
    return values_agree(node.value, other.value) and all(values_agree(*pair) for pair in values)
