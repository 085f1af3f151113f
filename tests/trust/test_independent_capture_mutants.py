"""Damage to captured models fails with the right words, and harmless edits pass.

The edits were written by somebody who had not read the comparison.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from fixtures.captured_edits import FOLDER, SEEN_AT_BREAKS, Edit, Way, captured
from fixtures.independent_capture_mutants import MUTANTS
from fixtures.independent_harmless_edits import HARMLESS
from pytest_fxgraph import assert_graph_matches_golden


@pytest.fixture(scope="module")
def golden_of(tmp_path_factory):
    """Returns where the golden of a file as it is lies, for a way to capture it."""

    @functools.cache
    def golden_of(way: Way) -> Path:
        folder = tmp_path_factory.mktemp("original")
        obtained = captured(way, (FOLDER / f"{way.model}.py").read_text(encoding="utf-8"), folder)
        path = folder / "golden.yaml"
        assert_graph_matches_golden(obtained, path, update=True)
        return path

    return golden_of


def failure(obtained, golden, level):
    with pytest.raises(AssertionError) as raised:
        assert_graph_matches_golden(obtained, golden, level=level)
    return str(raised.value)


def check_damage(edit: Edit, golden_of, folder) -> None:
    golden = golden_of(edit.way)
    obtained = captured(edit.way, edit.text(), folder)
    said = failure(obtained, golden, "structure")
    if edit.kind in SEEN_AT_BREAKS:
        said = failure(obtained, golden, "breaks")
    elif edit.way.frontend == "dynamo":
        assert_graph_matches_golden(obtained, golden, level="breaks")
    missing = [word for word in edit.words if word not in said]
    assert not missing, f"{missing} not in:\n{said}"


def check_harmless(edit: Edit, golden_of, folder) -> None:
    assert_graph_matches_golden(captured(edit.way, edit.text(), folder), golden_of(edit.way))


# Every way once as it is, in a file of another name: neither the file nor its folder is a part of the model.
MOVED = list(dict.fromkeys(edit.way for edit in (*MUTANTS, *HARMLESS)))
# What was missed at first, and one of each kind that is fast.
IN_SAMPLE = {
    *("dynamo-logged-another_module_path", "dynamo-logged-removed", "make_fx-arithmetic-correction"),
    *("dynamo-logged-comment_behind_a_break", "dynamo-logged-break_split_over_lines"),
}
DAMAGE_SAMPLE = [edit for edit in MUTANTS if str(edit) in IN_SAMPLE]
HARMLESS_SAMPLE = [edit for edit in HARMLESS if str(edit) in IN_SAMPLE]


@pytest.mark.parametrize("edit", DAMAGE_SAMPLE, ids=str)
def test_damage_fails_with_the_right_words(edit, golden_of, tmp_path):
    check_damage(edit, golden_of, tmp_path)


@pytest.mark.parametrize("edit", HARMLESS_SAMPLE, ids=str)
def test_a_harmless_edit_passes(edit, golden_of, tmp_path):
    check_harmless(edit, golden_of, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("edit", [edit for edit in MUTANTS if edit not in DAMAGE_SAMPLE], ids=str)
def test_all_other_damage_fails_with_the_right_words(edit, golden_of, tmp_path):
    check_damage(edit, golden_of, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("edit", [edit for edit in HARMLESS if edit not in HARMLESS_SAMPLE], ids=str)
def test_all_other_harmless_edits_pass(edit, golden_of, tmp_path):
    check_harmless(edit, golden_of, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("way", MOVED, ids=lambda way: f"{way.frontend}-{way.model}-{way.mode}-{way.decompositions}")
def test_a_file_that_moved_passes(way, golden_of, tmp_path):
    text = (FOLDER / f"{way.model}.py").read_text(encoding="utf-8")
    obtained = captured(way, text, tmp_path / "elsewhere", "moved_model")
    assert_graph_matches_golden(obtained, golden_of(way))


def test_there_are_enough_of_them():
    assert len(MUTANTS) >= 50
    assert len(HARMLESS) >= 25
    assert len(DAMAGE_SAMPLE) + len(HARMLESS_SAMPLE) == len(IN_SAMPLE)
    assert len({str(edit) for edit in (*MUTANTS, *HARMLESS)}) == len(MUTANTS) + len(HARMLESS)
