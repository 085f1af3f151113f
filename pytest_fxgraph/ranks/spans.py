"""Ranks in short: `0-3, 6`."""

from __future__ import annotations

from collections.abc import Sequence


def ranks_text(ranks: Sequence[int]) -> str:
    """Write ranks in short, with spans: `0-3, 6`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][-1] == rank - 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    return ", ".join([f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans])
