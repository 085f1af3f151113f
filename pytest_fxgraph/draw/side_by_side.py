"""Two texts side by side as a table of HTML, with what differs within a line marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from html import escape

from pytest_fxgraph.report.printable import printable_line

Pair = tuple[str | None, str | None]
Row = tuple[str | None, str | None, bool]  # the lines of both sides, None where there is none, and whether they differ

_CONTEXT = 3  # lines around what differs
_MOST_FOLDED = 400  # lines that are the same, one after the other, and kept for opening
MOST_LINES = 20_000  # of a text that is compared line by line
_MOST_ROWS = 3_000  # that differ, or stand around those
_MOST_TOKENS = 200  # of a line
_MOST_COMPARED = 400  # pairs of lines, one of each side
_LEAST = 0.01
_WORD = re.compile(r"\w+|\s+|.")


def text_rows(expected: str, obtained: str) -> list[Row]:
    """Pair the lines of two texts; those of very long ones one by one."""
    before, after = expected.split("\n"), obtained.split("\n")
    if len(before) + len(after) > MOST_LINES:
        paired = zip_longest_rows(before, after)
        return [(one, other, one != other) for one, other in paired]
    rows: list[Row] = []
    for _, start, end, other_start, other_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        paired = _alike(before[start:end], after[other_start:other_end])
        rows += [(one, other, one != other) for one, other in paired]
    return rows


def _alike(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Pair the lines that are most alike, in their order; others stand alone. Many lines are paired one by one."""
    if before == after or not before or not after or len(before) * len(after) > _MOST_COMPARED:
        return zip_longest_rows(before, after)
    scores = [[_likeness(one, other) for other in after] for one in before]
    # The best sum of what is left from each place on, as in an alignment of sequences.
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
    """Return how much of two lines is the same; lines that have little in common still stand beside each other."""
    ratio = difflib.SequenceMatcher(None, _WORD.findall(one), _WORD.findall(other), False).ratio()
    return max(ratio, _LEAST)


def zip_longest_rows(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Pair lines in order; what one side has more of stands alone."""
    count = max(len(before), len(after))
    return [
        (before[place] if place < len(before) else None, after[place] if place < len(after) else None)
        for place in range(count)
    ]


def table_html(rows: Sequence[Row], caption: str) -> str:
    """Return a table of rows; what is the same far from any difference is folded, or left out where it is long."""
    if not any(differs for *_, differs in rows):
        return '<p class="same">Nothing differs here.</p>'
    parts = [
        f'<table class="sides"><caption>{escape(caption)}</caption><thead><tr><th scope="col">expected</th>'
        '<th scope="col">obtained</th></tr></thead>'
    ]
    shown = 0
    for is_near, group in _grouped(rows):
        if is_near and shown > _MOST_ROWS:
            parts.append(_gap_html(len(group), "further lines are not shown"))
            continue
        if is_near:
            shown += len(group)
            parts += ["<tbody>", *map(_row_html, group), "</tbody>"]
        elif len(group) <= _MOST_FOLDED:
            button = f'<button type="button" class="unfold">{_lines(len(group))} the same</button>'
            parts.append(f'<tbody class="gap"><tr><td colspan="2">{button}</td></tr></tbody><tbody hidden>')
            parts += [*map(_row_html, group), "</tbody>"]
        else:
            parts.append(_gap_html(len(group), "the same"))
    return "".join([*parts, "</table>"])


def _gap_html(count: int, words: str) -> str:
    return f'<tbody class="gap"><tr><td colspan="2">{_lines(count)} {words}</td></tr></tbody>'


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _grouped(rows: Sequence[Row]) -> Iterator[tuple[bool, Sequence[Row]]]:
    """Yield rows near a difference, and rows that are not, in turns."""
    near = bytearray(len(rows))
    for place, (*_, differs) in enumerate(rows):
        if differs:
            for beside in range(max(0, place - _CONTEXT), min(len(rows), place + _CONTEXT + 1)):
                near[beside] = 1
    start = 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or near[place] != near[start]:
            yield bool(near[start]), rows[start:place]
            start = place


def _row_html(row: Row) -> str:
    expected, obtained, differs = row
    if not differs:
        return f"<tr><td>{_quoted(expected or '')}</td><td>{_quoted(obtained or '')}</td></tr>"
    if expected is None or obtained is None:
        cells = [
            f'<td class="{kind}"><{tag}>{_quoted(text)}</{tag}></td>' if text is not None else "<td></td>"
            for text, kind, tag in ((expected, "minus", "del"), (obtained, "plus", "ins"))
        ]
    else:
        one, other = _marked(expected, obtained)
        cells = [f'<td class="minus">{one}</td>', f'<td class="plus">{other}</td>']
    return f"<tr>{''.join(cells)}</tr>"


def _marked(expected: str, obtained: str) -> tuple[str, str]:
    """Return two lines as HTML, the words that differ as `del` and `ins`."""
    before, after = _WORD.findall(expected), _WORD.findall(obtained)
    if max(len(before), len(after)) > _MOST_TOKENS:
        return f"<del>{_quoted(expected)}</del>", f"<ins>{_quoted(obtained)}</ins>"
    one, other = [], []
    for tag, start, end, other_start, other_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        texts = _quoted("".join(before[start:end])), _quoted("".join(after[other_start:other_end]))
        one.append(texts[0] if tag == "equal" or not texts[0] else f"<del>{texts[0]}</del>")
        other.append(texts[1] if tag == "equal" or not texts[1] else f"<ins>{texts[1]}</ins>")
    return "".join(one), "".join(other)


def _quoted(text: str) -> str:
    return escape(printable_line(text))
