from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.compare.anchors import anchors


def test_items_that_occur_once_on_both_sides_are_paired():
    assert anchors([5, 1, 1, 6, 2], [1, 5, 3, 6, 1]) == [(0, 1), (3, 3)]


def test_of_items_in_another_order_as_many_are_paired_as_can_be():
    assert anchors([1, 2, 3, 4], [4, 1, 2, 3]) == [(0, 1), (1, 2), (2, 3)]


def test_nothing_occurs_once_in_nothing():
    assert anchors([], [1]) == anchors([1, 1], [1]) == []


@settings(max_examples=50)
@given(st.permutations(range(8)))
def test_pairs_are_equal_items_in_order(obtained):
    found = anchors(range(8), obtained)

    assert all(obtained[theirs] == ours for ours, theirs in found)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))
