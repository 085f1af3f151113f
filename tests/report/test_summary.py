from __future__ import annotations

import pytest

from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.summary import counted_goldens, results_of


@pytest.mark.parametrize(
    ("results", "unused", "words"),
    [
        ([], 0, ""),
        (["matched"], 0, "1 golden matched"),
        (["matched", "matched"], 0, "2 goldens matched"),
        (["mismatch"], 0, "1 golden differs"),
        (["mismatch", "mismatch", "matched"], 0, "1 golden matched, 2 differ"),
        (["written", "missing", "error", "refused"], 0, "1 golden written, 1 missing, 1 unreadable, 1 not written"),
        (["matched"], 2, "1 golden matched, 2 unused"),
        ([], 2, "2 goldens unused"),
    ],
)
def test_goldens_are_counted_in_one_line(results, unused, words):
    assert counted_goldens(results, unused) == words


def test_a_golden_compared_twice_counts_for_what_was_not_a_match():
    outcomes = [Outcome("t::a", "g", "structure", status) for status in ("matched", "mismatch", "matched")]

    assert results_of(outcomes) == {("t::a", "g"): "mismatch"}


def test_what_was_updated_was_written():
    assert results_of([Outcome("t::a", "g", "structure", "updated")]) == {("t::a", "g"): "written"}
