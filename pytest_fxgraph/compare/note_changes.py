"""Facts that hold for a whole graph: how its inputs and outputs are nested, what it was specialised to."""

from __future__ import annotations

from collections.abc import Callable

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.text_fields import changed_fields
from pytest_fxgraph.document.graph_document import GraphDocument

_OF_SIGNATURE = ("inputs: ", "input structure: ", "output structure: ")


def note_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """List notes that differ."""
    return _changes(expected, obtained, lambda note: True)


def signature_note_changes(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """List differing notes about what goes in and what comes out."""
    return _changes(expected, obtained, lambda note: note.startswith(_OF_SIGNATURE))


def _changes(expected: GraphDocument, obtained: GraphDocument, counts: Callable[[str], bool]) -> list[Change]:
    notes = [note for note in expected.notes if counts(note)]
    obtained_notes = [note for note in obtained.notes if counts(note)]
    if notes == obtained_notes:
        return []
    fields = changed_fields({"notes": notes}, {"notes": obtained_notes})
    return [Change("signature", "changed", "note", found.field, "", found.expected, found.obtained) for found in fields]
