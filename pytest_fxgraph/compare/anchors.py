"""Items that occur once in each of two sequences: where much differs, they show which part is which."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence


def anchors(expected: Sequence[int], obtained: Sequence[int]) -> list[tuple[int, int]]:
    """Pair the items that occur once on both sides, as many of them as stand in the same order."""
    places = {item: place for place, item in enumerate(obtained)}
    counts, obtained_counts = Counter(expected), Counter(obtained)
    pairs = [
        (place, places[item]) for place, item in enumerate(expected) if counts[item] == 1 and obtained_counts[item] == 1
    ]
    return [pairs[index] for index in _longest_rise([theirs for _, theirs in pairs])]


def _longest_rise(numbers: Sequence[int]) -> list[int]:
    """Give the indices of a longest rising subsequence; by patience, as card players sort."""
    tops: list[int] = []  # the smallest last number of a rise of each length
    top_indices: list[int] = []
    before: list[int] = []
    for index, number in enumerate(numbers):
        pile = bisect_left(tops, number)
        before.append(top_indices[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(number)
            top_indices.append(index)
        else:
            tops[pile], top_indices[pile] = number, index
    rise: list[int] = []
    index = top_indices[-1] if top_indices else -1
    while index >= 0:
        rise.append(index)
        index = before[index]
    return rise[::-1]
