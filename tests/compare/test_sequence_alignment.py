from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_fxgraph.compare.sequence_alignment import (
    anchors,
    common_ends,
    common_prefix,
    common_subsequence,
    longest_increasing,
    subsequence_between,
)

numbers = st.lists(st.integers(0, 3), max_size=12)


def longest_by_table(expected: list[int], obtained: list[int]) -> int:
    rows = [[0] * (len(obtained) + 1) for _ in range(len(expected) + 1)]
    for i, ours in enumerate(expected):
        for j, theirs in enumerate(obtained):
            rows[i + 1][j + 1] = rows[i][j] + 1 if ours == theirs else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


# On a machine with other work, drawing may be slow, which is no fault of the test.
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(numbers, numbers)
def test_pairs_are_equal_in_order_and_as_many_as_possible(expected, obtained):
    found = common_subsequence(expected, obtained)

    assert all(expected[ours] == obtained[theirs] for ours, theirs in found)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))
    assert len(found) == longest_by_table(expected, obtained)


def test_an_insertion_at_the_front_of_a_long_sequence_is_found():
    expected = [1, 2, 3] * 3000

    found = common_subsequence(expected, [7, *expected])

    assert found == [(place, place + 1) for place in range(len(expected))]


def test_two_edits_far_apart_in_equal_items_are_found():
    assert len(common_subsequence([5] + [1] * 5000, [1] * 5000 + [6])) == 5000


def test_sequences_with_little_in_common_are_given_up():
    assert common_subsequence(range(1000), range(1000, 2000), most_edits=300) is None


def test_nothing_pairs_with_nothing():
    assert common_subsequence([], []) == []
    assert common_subsequence([1], []) == []
    assert common_subsequence([1, 2], [], 1) == common_subsequence([], [1, 2], 1) == []


def test_many_edits_between_known_pairs_are_found():
    expected = [item for layer in range(100) for item in (1000 + layer, 1, 2, 3)]
    obtained = [item for layer in range(100) for item in (1000 + layer, 1, 7, 7, 7, 2, 3, 8)]

    found = subsequence_between(anchors(expected, obtained), expected, obtained)

    assert common_subsequence(expected, obtained) is None
    assert len(found) == len(expected)
    assert all(expected[ours] == obtained[theirs] for ours, theirs in found)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9), max_size=20))
def test_what_is_found_piece_by_piece_is_equal_and_in_order(expected, obtained):
    found = subsequence_between(anchors(expected, obtained), expected, obtained, most_edits=1)

    assert all(expected[ours] == obtained[theirs] for ours, theirs in found)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))


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


@pytest.mark.parametrize(
    ("expected", "obtained", "ends"),
    [
        ("abcXdef", "abcYYdef", (3, 3)),
        ("abc", "abc", (3, 0)),
        ("aa", "aaa", (2, 0)),
        ("Xaba", "Yaba", (0, 3)),
        ("ab", "ba", (0, 0)),
        ("", "a", (0, 0)),
    ],
)
def test_equal_items_at_the_beginning_and_behind_them_at_the_end_are_counted(expected, obtained, ends):
    assert common_ends(expected, obtained) == ends
    assert common_ends(obtained, expected) == ends
    assert common_prefix(expected, obtained) == ends[0]


@pytest.mark.parametrize(
    ("expected", "obtained", "edits"),
    [("ab", "xy", 4), ("abc", "axc", 2), ("a", "a", 0), ("xaby", "ba", 4)],
)
def test_as_many_edits_as_were_allowed_are_found_and_one_more_is_given_up(expected, obtained, edits):
    assert common_subsequence(expected, obtained, edits) is not None
    if edits:
        assert common_subsequence(expected, obtained, edits - 1) is None


def test_a_piece_with_too_many_edits_stays_unpaired_between_the_cuts():
    expected, obtained = "abcXde", "vwxyzXdfe"

    assert subsequence_between([(3, 5)], expected, obtained, 2) == [(3, 5), (4, 6), (5, 8)]
    assert subsequence_between([], "ab", "ab") == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("expected", "obtained", "pairs"), [("aba", "aa", [(0, 0), (2, 1)]), ("aa", "aba", [(0, 0), (1, 2)])]
)
def test_an_item_at_a_cut_has_one_partner(expected, obtained, pairs):
    assert subsequence_between([(0, 0)], expected, obtained) == pairs


@pytest.mark.parametrize(
    ("numbers", "indices"),
    [
        ([], []),
        ([5], [0]),
        ([1, 2, 3], [0, 1, 2]),
        ([3, 2, 1], [2]),
        ([2, 5, 3, 7, 4], [0, 2, 4]),
        ([1, 0, 2], [1, 2]),
        ([1, 5, 6, 2, 7], [0, 1, 2, 4]),
    ],
)
def test_a_longest_increasing_subsequence_ends_with_the_smallest_numbers(numbers, indices):
    assert longest_increasing(numbers) == indices
