"""Changes of the modules, the state and the notes of two documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_fxgraph.compare.changed_records import ChangedRecords, FieldChange, FieldChanges, TextRecord
from pytest_fxgraph.compare.close_numbers import argument_distance, content_distance, difference_in_words
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.graph_index import GraphIndex, content_of, shared_paths
from pytest_fxgraph.document.capture_notes import NOUNS, is_capture_note
from pytest_fxgraph.document.model import GraphDocument, StateRecord
from pytest_fxgraph.document.spelling import split_at
from pytest_fxgraph.grouping import without

_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_SPACE = re.compile(rf"({_STRING})|\s+")
_COMMENT = re.compile(rf'\A((?:{_STRING}|[^#"\x27])*)#.*\Z')
_STATEMENT = re.compile(
    r"(?P<before>break: .*? in [^:`]*: |recompile: .*? behind the break at `)(?P<code>.+?)(?P<after>\Z|`: .*)"
)
# One break less is no improvement if another finding came: a break that moved, a function left to Python as a whole.
_ENDS = ("break", "skipped", "fallback")
_INSTEAD = {"break": _ENDS, "skipped": _ENDS, "recompile": ("recompile", "fallback"), "fallback": ("fallback",)}


def add_modules(expected: GraphIndex, obtained: GraphIndex, records: ChangedRecords) -> list[str]:
    """Add modules that were added, removed or configured otherwise, and return their paths."""
    if expected.document.modules == obtained.document.modules:
        return []
    before, after = module_records(expected), module_records(obtained)
    changed = [path for path in dict.fromkeys([*before, *after]) if before.get(path) != after.get(path)]
    for path in changed:
        records.add("modules", path, before.get(path), after.get(path))
    return changed


def add_state(expected: GraphIndex, obtained: GraphIndex, records: ChangedRecords) -> list[str]:
    """Add parameters, buffers and constants that came, went or changed, and return their paths."""
    if expected.document.state == obtained.document.state:
        return []
    before, after = state_records(expected.document.state), state_records(obtained.document.state)
    changed = []
    for path in dict.fromkeys([*before, *after]):
        record, other = before.get(path), after.get(path)
        if record is not None and other is not None:
            record, other = _with_attributes(*_known_to_both(record, other))
        if record != other:
            records.add("state", path, record, other)
            changed.append(path)
    return changed


def record_changes(
    section: str, expected: GraphIndex, obtained: GraphIndex, records: ChangedRecords, fields: FieldChanges
) -> list[Change]:
    """Put the changed modules, or the changed state, in words; `section` is "modules" or "state"."""
    changed = records.of_section(section)
    subject, op = ("module", "call_module") if section == "modules" else ("state", "get_attr")
    changes: list[Change] = []
    for path, (before, after) in changed.items():
        about = Change(kind="state", action="changed", subject=subject, where=path)
        graphs = (obtained, expected) if after is None else (obtained,)
        callers = (graph.nodes[n] for graph in graphs for n in graph.callers(path) if graph.nodes[n].op == op)
        caller = next(callers, None)
        if caller is not None:
            about = replace(about, node=caller.name, scope=caller.scope, source=caller.source)
        if before is None or after is None:
            changes.append(_presence(about, before, after))
            continue
        for found in records.fields_of(section, path, fields):
            changes.append(_changed(about, found, after))
    return changes


def note_changes(records: ChangedRecords, fields: FieldChanges) -> list[Change]:
    """Put the changed notes in words."""
    return [
        Change("signature", "changed", "note", found.field, "", found.expected, found.obtained)
        for found in records.fields_of("notes", "", fields)
    ]


def _presence(about: Change, before: TextRecord | None, after: TextRecord | None) -> Change:
    kind = "operators" if about.subject == "module" else "state"
    action = "added" if before is None else "removed"
    return replace(about, kind=kind, action=action, expected=_summary(before), obtained=_summary(after))


def _summary(record: TextRecord | None) -> str:
    if record is None:
        return ""
    return f"{record['kind']} {record['value']}" if "value" in record else str(record["kind"])


def _changed(about: Change, found: FieldChange, record: TextRecord) -> Change:
    kind, remark = "state", ""
    if found.field == "content":
        if record["persistent"] == "False":  # rounding is no difference there
            remark = difference_in_words(found.expected, found.obtained, record["value"])
        else:
            remark = content_distance(found.expected, found.obtained, record["value"])
    elif found.field.startswith("config"):
        remark = argument_distance(found.expected, found.obtained)
    if about.subject == "module":
        kind = {"kind": "operators", "graph": "operators", "same_as": "state"}.get(found.field, "arguments")
    texts = {"expected": found.expected, "obtained": found.obtained}
    return replace(about, kind=kind, field=found.field, remark=remark, **texts)


def module_records(index: GraphIndex) -> dict[str, TextRecord]:
    """Return the compared fields of each module by path, without inner graphs."""
    sharing = shared_paths(index.document.modules)
    return {
        path: {
            "kind": module.kind,
            "config": dict(module.config),
            "training": None if module.training is None else str(module.training),
            "same_as": sharing.get(path),
            "graph": "no graph" if module.graph is None else "a graph",
        }
        for path, module in index.modules.items()
    }


def state_records(state: Iterable[StateRecord]) -> dict[str, TextRecord]:
    """Return the compared fields of each tensor by path."""
    by_path = {record.path: record for record in state}
    sharing = shared_paths(list(by_path.values()))
    return {
        path: {
            "kind": record.kind,
            **_held(record.value),
            "requires_grad": str(record.requires_grad),
            "persistent": str(record.persistent),
            "same_as": sharing.get(path),
            "content": content_of(record, by_path),
            "storage": by_path.get(record.same_as or "", record).storage,
        }
        for path, record in by_path.items()
    }


def _held(value: str) -> dict[str, str]:
    """Split the text of a tensor before the class that holds it: the words behind dtype and shape count alone."""
    words, separator, kind = value.partition(": ")
    return {"value": words, "class": kind} if separator and "(" not in words else {"value": value}


def _known_to_both(expected: TextRecord, obtained: TextRecord) -> tuple[TextRecord, TextRecord]:
    """Leave out the content of a constant that one side does not know, and whether the constant is a buffer there.

    torch.fx keeps plain tensors of a model as buffers, and a document has no content of buffers in the state dict. A
    tensor on the meta device has no content.
    """
    records = expected, obtained
    is_known = all(record["content"] is not None for record in records)
    if is_known or any(record["kind"] not in ("buffer", "constant") for record in records):
        return expected, obtained
    return {**expected, "content": None}, {**obtained, "content": None, "kind": expected["kind"]}


def _with_attributes(expected: TextRecord, obtained: TextRecord) -> tuple[TextRecord, TextRecord]:
    """Tell attribute by attribute how one class holds a tensor on both sides."""
    if "class" not in expected or "class" not in obtained:
        return expected, obtained
    told = [record["class"].partition("(") for record in (expected, obtained)]
    if told[0][0] != told[1][0]:
        return expected, obtained
    configs = [dict(map(_name_and_text, split_at(inside[:-1], ","))) for _, _, inside in told]
    return {**expected, "class": "", "config": configs[0]}, {**obtained, "class": "", "config": configs[1]}


def _name_and_text(attribute: str) -> tuple[str, str]:
    name, _, text = attribute.strip().partition("=")
    return name, text


# Notes of a capture.


def add_capture_notes(expected: GraphDocument, obtained: GraphDocument, records: ChangedRecords) -> list[Change]:
    """Add the notes of both documents, if they differ; return the added and removed findings of a capture."""
    records.add_notes(*([note for note in side.notes if not is_capture_note(note)] for side in (expected, obtained)))
    told, obtained_told = ([note for note in side.notes if is_capture_note(note)] for side in (expected, obtained))
    gone, come = (without(*sides, code_of_note) for sides in ((told, obtained_told), (obtained_told, told)))
    if not gone and not come:
        return []
    changes = [*_of_capture(come, "added", obtained.places), *_of_capture(gone, "removed", expected.places)]
    came = {change.subject for change in changes if change.action == "added"}
    changes = [
        replace(change, remark="others came")
        if change.action == "removed" and not came.isdisjoint(_INSTEAD.get(change.subject, ()))
        else change
        for change in changes
    ]
    order = [*NOUNS]
    changes.sort(key=lambda change: order.index(change.subject))
    records.expected["capture"], records.obtained["capture"] = gone, come
    return changes


def code_of_note(note: str) -> str:
    """Return a note without the spaces outside of strings, and its statement without comment in Python's own style."""
    if found := _STATEMENT.match(note):
        note = found["before"] + _in_plain_style(found["code"]) + found["after"]
    text = _SPACE.sub(lambda found: found[1] or "", note)
    return _COMMENT.sub(r"\1", text) if note.startswith("break: ") else text


def _in_plain_style(code: str) -> str:
    """Return a statement without the parentheses, commas and quotes that formatters choose; else the code as it is."""
    for ending in ("", " pass"):  # the second for `if` and `for`, which have no body here
        try:
            return ast.unparse(ast.parse(re.sub(r"\Aelif\b", "if", code) + ending))
        except (SyntaxError, ValueError, RecursionError):
            continue
    return code


def _of_capture(notes: Iterable[str], action: str, places: Mapping[str, str]) -> list[Change]:
    parts = [(*note.partition(": "), places.get(note) or None) for note in notes]
    return [Change("signature", action, kind, text, source=place, operator=text) for kind, _, text, place in parts]
