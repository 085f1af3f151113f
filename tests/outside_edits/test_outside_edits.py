"""Harmful edits of an outside author are caught at the level that the docs promise, and harmless ones match."""

from __future__ import annotations

import pytest

from tests.outside_edits.edit import Edit
from tests.outside_edits.table import EDITS
from tests.outside_edits.verdict import CAUGHT, MATCHED, judge

# An edit that is solved fails here as XPASS: its line must go.
UNSOLVED: dict[str, str] = {
    "DynamicInHalf": "packed parameters are no facts of a golden yet (issue 25, number 1)",
    "ModeOfALeaf": "strings of a user's leaf module are no facts of a golden yet (issue 25, number 2)",
}


def parameter(edit: Edit) -> object:
    reason = UNSOLVED.get(edit.name)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
    if edit.theme == "exports":
        marks.append(pytest.mark.slow)
    return pytest.param(edit, id=f"{edit.theme}-{edit.name}", marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("edit", [parameter(edit) for edit in EDITS])
def test_harmful_edits_are_caught_and_harmless_ones_match(edit, tmp_path):
    verdict = judge(edit, tmp_path)

    assert verdict.kind == (CAUGHT if edit.is_harmful else MATCHED), verdict.message


def test_names_of_edits_are_unique_and_unsolved_edits_exist():
    names = {edit.name for edit in EDITS}

    assert len(names) == len(EDITS)
    assert names >= UNSOLVED.keys()
