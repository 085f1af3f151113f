"""Level `breaks`, and what other levels compare of a capture beside its graphs: breaks, recompiles, guards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.changed_records import ChangedRecords
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.document.capture_notes import NOUNS, is_capture_note, is_of_capture
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import LevelError

_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_SPACE = re.compile(rf"({_STRING})|\s+")
_COMMENT = re.compile(rf'\A((?:{_STRING}|[^#"\x27])*)#.*\Z')
_AT_BREAKS = ("break", "recompile", "skipped", "fallback")
# One less of the first is no better where one of the others came: a break that moved, a function given up as a whole.
_ENDS = ("break", "skipped", "fallback")
_INSTEAD = {"break": _ENDS, "skipped": _ENDS, "recompile": ("recompile", "fallback"), "fallback": ("fallback",)}


def break_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare the breaks and recompiles of two captures; graphs and guards do not count.

    Raises LevelError for a graph that is no capture of Dynamo's, which cannot have a break.
    """
    if not is_of_capture(obtained):
        raise LevelError(
            "level 'breaks' compares what Dynamo told of a capture, and this is a graph: "
            'hand over fx_capture(model, inputs), or fx_golden(frontend="dynamo", example_inputs=...)'
        )
    records = ChangedRecords()
    changes = [change for change in add_capture_notes(expected, obtained, records) if change.subject in _AT_BREAKS]
    return Difference("breaks", tuple(changes), records=(records.expected, records.obtained) if changes else ({}, {}))


def add_capture_notes(expected: GraphDocument, obtained: GraphDocument, records: ChangedRecords) -> list[Change]:
    """Add the notes of both documents, if they differ; return what of a capture came and went."""
    plain = [[note for note in side.notes if not is_capture_note(note)] for side in (expected, obtained)]
    records.add_notes(*plain)
    told = [[note for note in side.notes if is_capture_note(note)] for side in (expected, obtained)]
    gone, come = _without(told[0], told[1]), _without(told[1], told[0])
    if not gone and not come:
        return []
    changes = [*_changes(come, "added"), *_changes(gone, "removed")]
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


def _without(notes: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the notes that the others do not have, or have less often; how source is spaced does not count."""
    left = Counter(map(_code, others))
    found = []
    for note in notes:
        code = _code(note)
        if left[code]:
            left[code] -= 1
        else:
            found.append(note)
    return found


def _code(note: str) -> str:
    """Return a note without the spaces that stand outside of strings, and a break's without a comment at its end."""
    text = _SPACE.sub(lambda found: found[1] or "", note)
    return _COMMENT.sub(r"\1", text) if note.startswith("break: ") else text


def _changes(notes: Iterable[str], action: str) -> list[Change]:
    parts = [note.partition(": ") for note in notes]
    return [Change("signature", action, kind, text, operator=text) for kind, _, text in parts]
