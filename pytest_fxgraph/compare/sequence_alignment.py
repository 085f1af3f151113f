"""The longest common subsequence of two sequences, found in time that grows with their difference."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from operator import lt

# Above this number of edits, graphs have little in common and an exact answer is too expensive.
MOST_EDITS = 300


def common_subsequence(
    expected: Sequence[object], obtained: Sequence[object], most_edits: int = MOST_EDITS
) -> list[tuple[int, int]] | None:
    """Pair equal items in order and leave as few items over as possible; return None for more than `most_edits` left.

    The method is the greedy algorithm of Myers (1986), after the common beginning and end are taken off.
    """
    start, end = common_ends(expected, obtained)
    middle, obtained_middle = expected[start : len(expected) - end], obtained[start : len(obtained) - end]
    inner = _greedy(middle, obtained_middle, most_edits)
    if inner is None:
        return None
    head = [(n, n) for n in range(start)]
    tail = [(len(expected) - n, len(obtained) - n) for n in range(end, 0, -1)]
    return head + [(start + place, start + obtained_place) for place, obtained_place in inner] + tail


def subsequence_between(
    cuts: Sequence[tuple[int, int]],
    expected: Sequence[object],
    obtained: Sequence[object],
    most_edits: int = MOST_EDITS,
) -> list[tuple[int, int]]:
    """Pair the items at the cuts (pairs in order), and the items of each piece between two cuts.

    A piece with more than `most_edits` edits stays unpaired; the caller has other evidence.
    """
    pairs: list[tuple[int, int]] = []
    start, obtained_start = 0, 0
    for cut, obtained_cut in [*cuts, (len(expected), len(obtained))]:
        piece = common_subsequence(expected[start:cut], obtained[obtained_start:obtained_cut], most_edits)
        pairs.extend((start + one, obtained_start + other) for one, other in piece or ())
        if cut < len(expected):
            pairs.append((cut, obtained_cut))
        start, obtained_start = cut + 1, obtained_cut + 1
    return pairs


def common_prefix(expected: Sequence[object], obtained: Sequence[object]) -> int:
    """Return the number of equal items at the beginning of two sequences."""
    pairs = enumerate(zip(expected, obtained, strict=False))
    return next((place for place, pair in pairs if pair[0] != pair[1]), min(len(expected), len(obtained)))


def common_ends(expected: Sequence[object], obtained: Sequence[object]) -> tuple[int, int]:
    """Return the numbers of equal items at the beginning and, behind them, at the end of two sequences."""
    start = common_prefix(expected, obtained)
    return start, common_prefix(expected[start:][::-1], obtained[start:][::-1])


def _greedy(expected: Sequence[object], obtained: Sequence[object], most_edits: int) -> list[tuple[int, int]] | None:
    if not expected or not obtained:
        return []
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(len(expected) + len(obtained), most_edits) + 1):
        trail.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            reached = _step(furthest, diagonal, edits)
            while (
                reached < len(expected)
                and reached - diagonal < len(obtained)
                and expected[reached] == obtained[reached - diagonal]
            ):
                reached += 1
            furthest[diagonal] = reached
            if reached >= len(expected) and reached - diagonal >= len(obtained):
                return _walk_back(trail, len(expected), len(obtained))
    return None


def _step(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """Start on a diagonal: an obtained item is left over (down), or an expected item (right)."""
    comes_down = diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
    return furthest[diagonal + 1] if comes_down else furthest[diagonal - 1] + 1


def _walk_back(trail: list[dict[int, int]], place: int, obtained_place: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trail) - 1, -1, -1):
        furthest = trail[edits]
        diagonal = place - obtained_place
        entered = _step(furthest, diagonal, edits)
        while place > entered:
            place, obtained_place = place - 1, obtained_place - 1
            pairs.append((place, obtained_place))
        if diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]):
            obtained_place -= 1
        else:
            place -= 1
    pairs.reverse()
    return pairs


def anchors(expected: Sequence[Hashable], obtained: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair items that occur once on both sides; of crossing pairs, keep as many as possible in one order."""
    places = {item: place for place, item in enumerate(obtained)}
    counts, obtained_counts = Counter(expected), Counter(obtained)
    pairs = [
        (place, places[item]) for place, item in enumerate(expected) if counts[item] == 1 and obtained_counts[item] == 1
    ]
    return [pairs[index] for index in longest_increasing([place for _, place in pairs])]


def longest_increasing(numbers: Sequence[int]) -> list[int]:
    """Return the indices of a longest increasing subsequence of distinct numbers."""
    if all(map(lt, numbers, numbers[1:])):  # 10 times as fast as the loop
        return [*range(len(numbers))]
    ends: list[int] = []  # the smallest last number of an increasing subsequence of each length
    ends_at: list[int] = []
    before: list[int] = []
    for index, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(ends_at[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        ends_at[length : length + 1] = [index]
    indices: list[int] = []
    index = ends_at[-1]
    while index >= 0:
        indices.append(index)
        index = before[index]
    return indices[::-1]
