"""Module paths and names that count up: `layers.0`, `layers.1`, ... `layers.31`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

NUMBER = re.compile(r"\d{1,9}")
_FEW = 3
_MOST_RANGES = 5


def pattern_of(path: str) -> str:
    """Return a path with `#` in place of each number."""
    return NUMBER.sub("#", path)


def steps_between(path: str, following: str) -> tuple[int, ...] | None:
    """Return the steps of the numbers, () for equal paths. Return None if more than numbers differs."""
    if path == following:
        return ()
    if pattern_of(path) != pattern_of(following):
        return None
    pairs = zip(NUMBER.findall(path), NUMBER.findall(following), strict=True)
    return tuple(int(other) - int(one) for one, other in pairs)


def format_paths(paths: Sequence[str]) -> str:
    """List paths in one line. Evenly numbered paths become a range; only the first few ranges are listed.

    A range ends at a missing number, so that it contains no path outside the list.
    """
    return ", ".join(paths) if len(paths) <= _FEW else _first_ranges(paths, _format_range)


def format_ranges(paths: Sequence[str]) -> str:
    """List paths in one line, as `format_paths` does, with a range written once: `blocks.0-11.mlp`."""
    return _first_ranges(paths, _short_range)


def _first_ranges(paths: Sequence[str], text_of: Callable[[list[str]], str]) -> str:
    ranges = _ranges(paths)
    omitted = sum(map(len, ranges[_MOST_RANGES:]))
    shown = [text_of(each) for each in ranges[:_MOST_RANGES]]
    return ", ".join([*shown, *([f"and {omitted} more"] if omitted else [])])


def _ranges(paths: Sequence[str]) -> list[list[str]]:
    """Group paths that follow each other and whose one number goes up evenly."""
    ranges: list[list[str]] = []
    for path in paths:
        if ranges and _continues(ranges[-1], path):
            ranges[-1].append(path)
        else:
            ranges.append([path])
    return ranges


def _continues(paths: list[str], path: str) -> bool:
    """Return whether one number of the path goes up by the same step as before."""
    steps = steps_between(paths[-1], path)
    if steps is None or sum(map(bool, steps)) != 1 or sum(steps) < 0:
        return False
    return len(paths) == 1 or steps == steps_between(paths[-2], paths[-1])


def _format_range(paths: list[str]) -> str:
    if len(paths) <= 2:
        return ", ".join(paths)
    # The second path shows that not every number is in the list.
    start = paths[:1] if sum(steps_between(paths[0], paths[1]) or ()) == 1 else paths[:2]
    return f"{', '.join(start)} .. {paths[-1]}"


def _short_range(paths: list[str]) -> str:
    numbers = [(NUMBER.findall(path)) for path in (paths[0], paths[-1])]
    place = next((place for place, pair in enumerate(zip(*numbers, strict=True)) if pair[0] != pair[1]), None)
    if place is None or len(paths) < 3 or sum(steps_between(paths[0], paths[1]) or ()) != 1:
        return ", ".join(paths) if len(paths) < 3 else _format_range(paths)
    found = [*NUMBER.finditer(paths[0])][place]
    return f"{paths[0][: found.end()]}-{numbers[1][place]}{paths[0][found.end() :]}"
