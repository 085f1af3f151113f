"""Changes that are one change at many places, told once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.literals import references, rename_references


@dataclass(frozen=True)
class FoldedChange:
    """A change and the further places at which the same one is found."""

    change: Change
    others: tuple[str, ...] = ()

    def other_places(self) -> str:
        """Say where else: all places if they are few, else the first and the last."""
        if not self.others:
            return ""
        places = ", ".join(self.others) if len(self.others) <= 3 else f"{self.others[0]} .. {self.others[-1]}"
        return f"same change at {len(self.others)} more place{'s' if len(self.others) > 1 else ''}: {places}"


def folded(changes: Sequence[Change]) -> list[FoldedChange]:
    """Group changes that differ by numbers in names alone, in the order of their first."""
    groups: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        groups.setdefault(_key(change), []).append(change)
    return [FoldedChange(group[0], tuple(change.where for change in group[1:])) for group in groups.values()]


def _key(change: Change) -> tuple[str, ...]:
    place = re.sub(r"_\d+$|\d+", "#", change.where).removesuffix("#")
    texts = [_without_names(text) for text in (change.expected, change.obtained)]
    if change.field in ("name", "order") or change.subject in ("code", "note"):
        return (change.kind, change.subject, change.field, change.where, *texts)
    return (change.kind, change.action, change.subject, change.field, place, change.operator, *texts)


def _without_names(text: str) -> str:
    return rename_references(text, dict.fromkeys(references(text), ""))
