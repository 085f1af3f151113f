"""The table of collectives: ranks that do the same share a row, repeated blocks are folded, and groups have totals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_fxgraph.ranks.world import ranks_text
from pytest_fxgraph.report.printable import counted

_LONGEST_BLOCK = 64  # rows; a longer repetition stays unfolded
_NUMBER_OF_BLOCK = re.compile(r"(?<=[.\[_])\d+|^\d+")
_TITLES = ("ranks", "times", "collective", "group", "dtype", "shapes", "bytes", "sent", "module")


class Row(NamedTuple):
    """The cells of a collective that ranks may share."""

    kind: str
    group: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    sent: int
    module: str

    def cells(self, ranks: str, times: int) -> tuple[str, ...]:
        """Return the texts of the columns."""
        shapes = [str(list(shape)) for shape in self.shapes]
        shown = f"{len(shapes)} x {shapes[0]}" if len(shapes) > 1 and len({*shapes}) == 1 else ", ".join(shapes)
        numbers = (f"{self.bytes:,}", f"{self.sent:,}") if shapes or self.kind == "barrier" else ("?", "?")
        return ranks, f"x{times}" if times > 1 else "", self.kind, self.group, self.dtype, shown, *numbers, self.module


def printed(by_rank: Mapping[int, Sequence[Row]]) -> str:
    """Return the table of the rows of all ranks, and below it the totals of each group for one rank."""
    together: dict[tuple[Row, ...], list[int]] = {}
    for rank, rows in by_rank.items():
        together.setdefault(tuple(rows), []).append(rank)
    lines: list[tuple[str, ...]] = [_TITLES]
    for rows, ranks in together.items():
        lines += [row.cells(ranks_text(ranks), times) for row, times in _folded(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]).rstrip() for line in lines
    ]
    return "\n".join([*texts, *(total for rows, ranks in together.items() for total in _totals(rows, ranks))])


def _totals(rows: Sequence[Row], ranks: Sequence[int]) -> Iterator[str]:
    """Yield a line for each group that ranks with these rows use."""
    who = f"each of ranks {ranks_text(ranks)}" if len(ranks) > 1 else f"rank {ranks[0]}"
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        yield (
            f"total on {group}, {who}: {counted(len(own), 'collective')}, {sum(row.bytes for row in own):,} bytes, "
            f"{sum(row.sent for row in own):,} sent"
        )


def _folded(rows: Sequence[Row]) -> Iterator[tuple[Row, int]]:
    """Yield each row with its number of repetitions; of repeated blocks one, with `*` for the number of the block."""
    general = [row._replace(module=_NUMBER_OF_BLOCK.sub("*", row.module)) for row in rows]
    start = 0
    while start < len(rows):
        length, times = 1, 1
        for candidate in range(1, min(_LONGEST_BLOCK, (len(rows) - start) // 2) + 1):
            found = _repetitions(general, start, candidate)
            if candidate * (found - 1) > length * (times - 1):
                length, times = candidate, found
        for place in range(start, start + length):
            yield (general if times > 1 else rows)[place], times
        start += length * times


def _repetitions(rows: Sequence[Row], start: int, length: int) -> int:
    """Return how many times the `length` rows from `start` on stand one after the other."""
    times, block = 1, rows[start : start + length]
    while rows[start + times * length : start + (times + 1) * length] == block:
        times += 1
    return times
