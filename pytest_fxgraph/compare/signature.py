"""Level `signature`: what goes in, what comes out, and the names, shapes and dtypes of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.changed_records import ChangedRecords, FieldChanges, TextRecord, changed_fields
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.isomorphism import values_agree
from pytest_fxgraph.compare.record_changes import note_changes
from pytest_fxgraph.document.capture_notes import is_of_capture
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument

_NOTES = ("inputs: ", "input structure: ", "output structure: ")
# What a change in each section of the records is about.
_ABOUT = {
    "inputs": Change("signature", "changed", "input", ""),
    "outputs": Change("signature", "changed", "output", ""),
    "state": Change("state", "changed", "state", ""),
}
# Fields other than the value, and values that may be unknown, by key.
_Described = Mapping[str, tuple[TextRecord, Sequence[str | None]]]


def signature_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare inputs in order, the structure and values of outputs, and the state by path."""
    records = ChangedRecords()
    sections, obtained_sections = _sections(expected), _sections(obtained)
    for section in _ABOUT:
        _add(records, section, sections[section], obtained_sections[section])
    notes, obtained_notes = ([note for note in side.notes if note.startswith(_NOTES)] for side in (expected, obtained))
    records.add_notes(notes, obtained_notes)
    fields = changed_fields(records)
    changes = _order_changes([*sections["inputs"]], [*obtained_sections["inputs"]])
    for section in _ABOUT:
        changes += _changes(records, section, fields)
    changes += note_changes(records, fields)
    return Difference("signature", tuple(changes), records=(records.expected, records.obtained))


def _sections(document: GraphDocument) -> dict[str, _Described]:
    """Describe inputs, outputs and state; of a capture those of all its graphs, by the graph's name and their own."""
    if not is_of_capture(document):
        return _sections_of_graph(document)
    sections: dict[str, dict[str, tuple[TextRecord, Sequence[str | None]]]] = {section: {} for section in _ABOUT}
    for module in document.modules:
        for section, described in _sections_of_graph(module.graph).items() if module.graph is not None else ():
            sections[section].update({f"{module.path}/{key}": each for key, each in described.items()})
    return {**sections}


def _sections_of_graph(document: GraphDocument) -> dict[str, _Described]:
    inputs = [node for node in document.nodes if node.op == "placeholder"]
    outputs = [node for node in document.nodes if node.op == "output"]
    values = {node.name: node.value for node in document.nodes}
    read = [[name for text in node.args for name in references(text)] for node in outputs]
    forms = [
        [rename_references(text, dict.fromkeys(names, "")) for text in node.args]
        for node, names in zip(outputs, read, strict=True)
    ]
    return {
        "inputs": {node.target: ({"default": ", ".join(node.args)}, [node.value]) for node in inputs},
        "outputs": {
            f"output_{n}" if n else "output": ({"args": form}, [node.value, *map(values.get, names)])
            for n, (node, names, form) in enumerate(zip(outputs, read, forms, strict=True))
        },
        "state": {record.path: ({}, [record.value]) for record in document.state},
    }


def _add(records: ChangedRecords, section: str, expected: _Described, obtained: _Described) -> None:
    """Add what differs, with values as one text; values that only one side knows are no difference."""
    for key in dict.fromkeys([*expected, *obtained]):
        if key not in expected or key not in obtained:
            described = [side.get(key) for side in (expected, obtained)]
            records.add(section, key, *[each and {**each[0], "value": _text(each[1])} for each in described])
            continue
        (fields, values), (obtained_fields, obtained_values) = expected[key], obtained[key]
        # What an output is made of can be compared only where its structure is the same.
        is_comparable = section != "outputs" or fields == obtained_fields
        if is_comparable and not all(map(values_agree, values, obtained_values)):
            fields = {**fields, "value": _text(values)}
            obtained_fields = {**obtained_fields, "value": _text(obtained_values)}
        if fields != obtained_fields:
            records.add(section, key, fields, obtained_fields)


def _text(values: Sequence[str | None]) -> str:
    """Write the values that a node reads; its own, where it reads none."""
    return ", ".join(value or "?" for value in values[1:]) or values[0] or ""


def _order_changes(names: list[str], obtained_names: list[str]) -> list[Change]:
    if names == obtained_names or sorted(names) != sorted(obtained_names):
        return []
    about = replace(_ABOUT["inputs"], action="moved", where=obtained_names[0], field="order")
    return [replace(about, expected=", ".join(names), obtained=", ".join(obtained_names))]


def _changes(records: ChangedRecords, section: str, fields: FieldChanges) -> Iterator[Change]:
    """Put a section in words: of state that came or went its value is told, of inputs the name."""
    for key, (before, after) in records.of_section(section).items():
        about = replace(_ABOUT[section], where=key)
        if after is None:
            yield replace(about, action="removed", expected=before["value"] if before and section == "state" else key)
        elif before is None:
            yield replace(about, action="added", obtained=after["value"] if section == "state" else key)
        for found in records.fields_of(section, key, fields):
            yield replace(about, field=found.field, expected=found.expected, obtained=found.obtained)
