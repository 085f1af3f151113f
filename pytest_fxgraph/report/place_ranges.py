"""Numbered places in few words: `layers.0 .. layers.6, layers.8 .. layers.31`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"\d{1,9}")
_FEW = 3
_MOST_RANGES = 5


def place_ranges(places: Sequence[str]) -> str:
    """List places; those that count up evenly are told by the first and the last, and of many ranges some are left out.

    No place is told that is not there: a range ends where a number is missing.
    """
    if len(places) <= _FEW:
        return ", ".join(places)
    ranges = _ranges(places)
    left_out = sum(len(found.places) for found in ranges[_MOST_RANGES:])
    return ", ".join([*map(str, ranges[:_MOST_RANGES]), *([f"and {left_out} more"] if left_out else [])])


def pattern_of(place: str) -> str:
    """Give what numbered places have in common."""
    return _NUMBER.sub("#", place)


def steps_between(place: str, following: str) -> tuple[int, ...] | None:
    """Tell by how much each number goes up from one place to the next; None where more than numbers differs."""
    if place == following:
        return ()
    if pattern_of(place) != pattern_of(following):
        return None
    pairs = zip(_NUMBER.findall(place), _NUMBER.findall(following), strict=True)
    return tuple(int(other) - int(one) for one, other in pairs)


@dataclass
class _Range:
    places: list[str]
    step: tuple[int, ...] = ()

    def takes(self, place: str) -> bool:
        """Add the place that comes next; refuse any other."""
        step = steps_between(self.places[-1], place)
        is_next = step is not None and sum(map(bool, step)) == 1 and sum(step) > 0
        if step is None or not is_next or (self.step and step != self.step):
            return False
        self.places.append(place)
        self.step = step
        return True

    def __str__(self) -> str:
        if len(self.places) <= 2:
            return ", ".join(self.places)
        # The second place shows that not every number is there.
        start = self.places[:1] if sum(self.step) == 1 else self.places[:2]
        return f"{', '.join(start)} .. {self.places[-1]}"


def _ranges(places: Sequence[str]) -> list[_Range]:
    ranges = [_Range([place]) for place in places[:1]]
    for place in places[1:]:
        if not ranges[-1].takes(place):
            ranges.append(_Range([place]))
    return ranges
