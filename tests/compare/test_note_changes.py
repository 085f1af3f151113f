"""Notes: how inputs and outputs are nested, and what a graph was specialised to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents

PLAIN = document("%x = input x\n%a = f(%x)\nreturn %a")
NESTED = replace(PLAIN, notes=("output structure: {'a': *}", "x has 2 dimensions"))


@pytest.mark.parametrize("level", ["exact", "structure"])
@pytest.mark.parametrize("note", ["output structure: {'b': *}", "x has 2 dimensions"])
def test_a_changed_note_is_a_difference_where_everything_counts(level, note):
    obtained = replace(NESTED, notes=(note, "x has 3 dimensions"))

    difference = compare_documents(NESTED, obtained, level=level)

    assert difference.kind == "signature"
    assert ("note", "x has 2 dimensions", "x has 3 dimensions") in {
        (change.subject, change.expected, change.obtained) for change in difference.changes
    }


def test_at_level_signature_only_notes_about_inputs_and_outputs_count():
    other_output = replace(NESTED, notes=("output structure: {'b': *}", "x has 2 dimensions"))
    other_shape = replace(NESTED, notes=("output structure: {'a': *}", "x has 3 dimensions"))

    assert not compare_documents(NESTED, other_output, level="signature").is_empty
    assert compare_documents(NESTED, other_shape, level="signature").is_empty
