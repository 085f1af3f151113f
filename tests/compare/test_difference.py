"""A difference is plain data: equal differences are equal, and its parts for reports do not show."""

from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents

EXPECTED, OBTAINED, OTHER = (
    document(f"%x = input x\n%a = torch.{name}(%x)\nreturn %a") for name in ("exp", "sin", "cos")
)


@pytest.mark.parametrize("level", ["exact", "structure", "ops", "signature"])
def test_differences_of_equal_changes_are_equal(level):
    first, second = (compare_documents(EXPECTED, OBTAINED, level=level) for _ in range(2))

    assert first == second
    assert (first == compare_documents(EXPECTED, OTHER, level=level)) is (level == "signature")


def test_the_records_and_the_pairs_of_nodes_are_no_part_of_the_text_of_a_difference():
    difference = compare_documents(EXPECTED, OBTAINED)

    assert difference.records[0]
    assert difference.alignment is not None
    assert [word for word in ("records", "alignment") if word in repr(difference)] == []


def test_a_difference_without_further_facts_has_left_out_nothing():
    difference = Difference("ops")

    assert (difference.renamed, difference.omitted, difference.omitted_in_edits, difference.followed) == (0, 0, 0, 0)
    assert not difference.truncated
    assert (difference.records, difference.alignment, difference.is_empty) == (({}, {}), None, True)
