"""Level `breaks`, and what other levels compare of a capture beside its graphs: breaks, recompiles, guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_fxgraph.compare.changed_records import ChangedRecords
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.document.capture_notes import NOUNS, is_capture_note, is_of_capture
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import LevelError

_AT_BREAKS = ("break", "recompile", "skipped", "fallback")


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
    counts = [Counter(filter(is_capture_note, side.notes)) for side in (expected, obtained)]
    if counts[0] == counts[1]:
        return []
    gone, come = (counts[0] - counts[1]).elements(), (counts[1] - counts[0]).elements()
    changes = [*_changes(come, "added"), *_changes(gone, "removed")]
    order = [*NOUNS]
    changes.sort(key=lambda change: order.index(change.subject))
    for side, count in ((records.expected, counts[0] - counts[1]), (records.obtained, counts[1] - counts[0])):
        side["capture"] = list(count.elements())
    return changes


def _changes(notes: Iterable[str], action: str) -> list[Change]:
    parts = [note.partition(": ") for note in notes]
    return [Change("signature", action, kind, text, operator=text) for kind, _, text in parts]
