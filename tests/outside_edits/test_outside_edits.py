"""Harmful edits of an outside author are caught at the level that the docs promise, and harmless ones match."""

from __future__ import annotations

import pytest

from tests.outside_edits.edit import Edit
from tests.outside_edits.table import EDITS
from tests.outside_edits.verdict import CAUGHT, MATCHED, judge

_TABLES = ("layers", "statements")  # long tables of plain edits: one of three runs by default


def parameter(place: int, edit: Edit) -> object:
    is_slow = edit.theme == "exports" or (edit.theme in _TABLES and place % 3)
    return pytest.param(edit, id=f"{edit.theme}-{edit.name}", marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.sampled(every=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("edit", [parameter(place, edit) for place, edit in enumerate(EDITS)])
def test_harmful_edits_are_caught_and_harmless_ones_match(edit, tmp_path):
    verdict = judge(edit, tmp_path)

    assert verdict.kind == (CAUGHT if edit.is_harmful else MATCHED), verdict.message


def test_names_of_edits_are_unique():
    assert len({edit.name for edit in EDITS}) == len(EDITS)
