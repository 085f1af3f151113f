"""Edits and the rest are the whole difference: each change is in one edit at most, and recognition never fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.document_strategies import documents, layered_documents
from fixtures.mutant_trials import is_partition
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from tests.compare.test_structure_oracle import rewired, small_documents


def check(difference: Difference) -> None:
    assert is_partition(difference)
    assert all(edit.text and edit.key for edit in difference.edits)


@settings(deadline=None, max_examples=40)
@given(documents(documents()), documents(documents()), st.sampled_from(["structure", "exact"]))
def test_edits_and_rest_are_the_difference_of_any_two_documents(expected, obtained, level):
    check(compare_documents(expected, obtained, level=level))


@pytest.mark.slow
@settings(deadline=None)
@given(layered_documents(), layered_documents())
def test_edits_and_rest_are_the_difference_of_any_two_documents_with_layers(expected, obtained):
    check(compare_documents(expected, obtained))


@settings(deadline=None)
@given(small_documents(), st.integers(0, 1000))
def test_edits_explain_everything_in_a_rewired_graph(document, seed):
    difference = compare_documents(document, rewired(document, seed))

    check(difference)
    assert {change.subject for change in difference.rest} <= {"code"}
