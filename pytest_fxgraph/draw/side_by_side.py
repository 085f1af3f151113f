"""Two texts side by side as a table of HTML, with the words that differ marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from pytest_fxgraph.draw.templates import panel

Pair = tuple[str | None, str | None]
Row = tuple[str | None, str | None, bool]  # expected line, obtained line, and whether they differ

_CONTEXT = 3  # lines around a difference
_MOST_FOLDED = 400  # equal lines in a row, kept behind a button
MOST_LINES = 20_000  # of a text that is compared line by line
_MOST_ROWS = 3_000  # that differ, or stand around a difference
_MOST_TOKENS = 200  # of a line
_MOST_COMPARED = 400  # pairs of lines, one of each side
_LEAST = 0.01
_WORD = re.compile(r"\w+|\s+|.")


def text_rows(expected: str, obtained: str) -> list[Row]:
    """Pair the lines of two texts. The lines of very long texts are paired one by one."""
    before, after = expected.split("\n"), obtained.split("\n")
    if len(before) + len(after) > MOST_LINES:
        return [(one, other, one != other) for one, other in zip_longest(before, after)]
    rows: list[Row] = []
    for _, start, end, other_start, other_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        paired = _alike(before[start:end], after[other_start:other_end])
        rows += [(one, other, one != other) for one, other in paired]
    return rows


def _alike(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Pair the most similar lines in order; other lines stand alone. Many lines are paired one by one."""
    if before == after or len(before) * len(after) > _MOST_COMPARED:
        return [*zip_longest(before, after)]
    scores = [[_likeness(one, other) for other in after] for one in before]
    # The best sum of the rest from each place on, as in an alignment of sequences.
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for one in reversed(range(len(before))):
        for other in reversed(range(len(after))):
            paired = best[one + 1][other + 1] + scores[one][other]
            best[one][other] = max(paired, best[one + 1][other], best[one][other + 1])
    found: list[Pair] = []
    one = other = 0
    while one < len(before) and other < len(after):
        if best[one][other] == best[one + 1][other + 1] + scores[one][other]:
            found.append((before[one], after[other]))
            one, other = one + 1, other + 1
        elif best[one][other] == best[one + 1][other]:
            found.append((before[one], None))
            one += 1
        else:
            found.append((None, after[other]))
            other += 1
    return [*found, *((line, None) for line in before[one:]), *((None, line) for line in after[other:])]


def _likeness(one: str, other: str) -> float:
    """Return the equal share of two lines. The least value lets unlike lines stand beside each other."""
    ratio = difflib.SequenceMatcher(None, _WORD.findall(one), _WORD.findall(other), False).ratio()
    return max(ratio, _LEAST)


class _Group(NamedTuple):
    """Rows of a table. With `words`, they are behind a button; without rows, only the words are shown."""

    length: int
    rows: Sequence[tuple[Any, Any, bool]]
    words: str = ""


def table_html(rows: Sequence[Row], caption: str) -> str:
    """Return a table of rows. Equal rows far from a difference are folded, or left out if there are many."""
    groups: list[_Group] = []
    shown = 0
    for is_near, group in _grouped(rows):
        if is_near and shown > _MOST_ROWS:
            groups.append(_Group(len(group), (), "further lines are not shown"))
        elif is_near:
            shown += len(group)
            groups.append(_Group(len(group), [_marked(row) for row in group]))
        else:
            groups.append(_Group(len(group), group if len(group) <= _MOST_FOLDED else (), "the same"))
    return panel("sides", caption, groups if shown else ())


def _grouped(rows: Sequence[Row]) -> Iterator[tuple[bool, Sequence[Row]]]:
    """Yield rows near a difference and rows far from it, in turns."""
    near = bytearray(len(rows))
    for place, (*_, differs) in enumerate(rows):
        if differs:
            for beside in range(max(0, place - _CONTEXT), min(len(rows), place + _CONTEXT + 1)):
                near[beside] = 1
    for is_near, group in groupby(zip(near, rows, strict=True), key=lambda each: each[0]):
        yield bool(is_near), [row for _, row in group]


def _marked(row: Row) -> tuple[Any, Any, bool]:
    """Split the lines of a row that differs into parts: a text, and whether the other line lacks the text."""
    expected, obtained, differs = row
    if not differs:
        return row
    if expected is None or obtained is None:
        return (expected and [(expected, True)], obtained and [(obtained, True)], True)
    before, after = _WORD.findall(expected), _WORD.findall(obtained)
    if max(len(before), len(after)) > _MOST_TOKENS:
        return [(expected, True)], [(obtained, True)], True
    one, other = [], []
    for tag, start, end, other_start, other_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        one.append(("".join(before[start:end]), tag != "equal"))
        other.append(("".join(after[other_start:other_end]), tag != "equal"))
    return [part for part in one if part[0]], [part for part in other if part[0]], True
