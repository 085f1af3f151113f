"""Changes that are one change at many places, told once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.literals import references, rename_references

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


_MOST_COMPARED = 8
_COUNTED = re.compile(r"_\d{1,9}\Z")


@dataclass(frozen=True)
class FoldedChange:
    """A change and the further ones that are the same at other places."""

    change: Change
    further: tuple[Change, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """Name the further places."""
        return tuple(change.where for change in self.further)

    def other_places(self) -> str:
        """Say where else: in which modules, and at which places of theirs."""
        if not self.further:
            return ""
        words = f"same change at {len(self.further)} more place{'s' if len(self.further) > 1 else ''}: "
        scopes = list(dict.fromkeys(change.scope for change in self.further if change.scope))
        is_told = not scopes or all(change.subject in ("module", "state") for change in self.further)
        return words + place_ranges(self.others) + ("" if is_told else f", in {place_ranges(scopes)}")


@dataclass(frozen=True)
class FoldedBlock:
    """Changes that are found together in each of several blocks of a model; without blocks, a change by itself."""

    changes: tuple[FoldedChange, ...]
    blocks: tuple[str, ...] = ()  # module paths


def folded(changes: Sequence[Change]) -> list[FoldedChange]:
    """Group changes that differ by numbers in names alone, in the order of their first.

    Where names of nodes are part of a change, its numbers have to count along: a wire that goes elsewhere in one block
    than it does in the others is another change.
    """
    groups: dict[tuple[str, ...], list[_Group]] = {}
    order: list[_Group] = []
    for change in changes:
        alike = groups.setdefault(_key(change), [])
        numbers = _numbers(change)
        # The latest are enough to look at; in a graph where each block differs, there would be many.
        if not any(group.takes(change, numbers) for group in alike[-_MOST_COMPARED:]):
            alike.append(_Group([change], numbers))
            order.append(alike[-1])
    return [FoldedChange(group.changes[0], tuple(group.changes[1:])) for group in order]


@dataclass
class _Group:
    """Changes that are alike, and the numbers in the first of them."""

    changes: list[Change]
    numbers: tuple[int, ...]
    direction: tuple[int, ...] = ()

    def takes(self, change: Change, numbers: tuple[int, ...]) -> bool:
        """Add a change whose numbers are further along the line that those of the first two began; refuse others."""
        steps = tuple(number - first for number, first in zip(numbers, self.numbers, strict=True))
        direction = self.direction or steps
        if min(steps, default=0) < 0 or not _are_parallel(steps, direction):
            return False
        self.changes.append(change)
        self.direction = direction
        return True


def _are_parallel(steps: tuple[int, ...], direction: tuple[int, ...]) -> bool:
    leading = next((place for place, step in enumerate(direction) if step), None)
    if leading is None:
        return not any(steps)
    pairs = zip(steps, direction, strict=True)
    return all(step * direction[leading] == other * steps[leading] for step, other in pairs)


def folded_blocks(changes: Sequence[Change]) -> list[FoldedBlock]:
    """Group changes as `folded` does, and those that the same blocks have in common with each other."""
    together: dict[tuple[str, ...], list[FoldedChange]] = {}
    order: list[tuple[str, ...]] = []
    for number, group in enumerate(folded(changes)):
        blocks = blocks_of([change_path(change) for change in (group.change, *group.further)])
        key = blocks or (f"\0{number}",)
        if key not in together:
            order.append(key)
        together.setdefault(key, []).append(group)
    return [FoldedBlock(tuple(together[key]), key if len(key) > 1 else ()) for key in order]


def change_path(change: Change) -> str:
    """Give the path of the module that a change is in, or about."""
    if change.subject in ("module", "state"):
        return change.where
    return change.scope or ""


def blocks_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Name the repeated modules that the paths lie in, one for each path; nothing where there is no telling."""
    for blocks in zip(*map(numbered_prefixes, paths), strict=False):
        if 1 < len(blocks) == len(set(blocks)):
            return blocks
    return ()


def numbered_prefixes(path: str) -> Iterator[str]:
    """Yield what ends in a number, the outermost first: `stages.1`, then `stages.1.blocks.0`."""
    for match in re.finditer(r"\d(?=\.|\Z)", path):
        yield path[: match.end()]


def _key(change: Change) -> tuple[str, ...]:
    if change.field in ("name", "order") or change.subject in ("code", "note"):
        return (change.kind, change.subject, change.field, change.where, change.expected, change.obtained)
    texts = [_with_patterns(text) for text in (change.expected, change.obtained)]
    place = _pattern(change.where)
    return (change.kind, change.action, change.subject, change.field, place, _path_pattern(change.operator), *texts)


def _numbers(change: Change) -> tuple[int, ...]:
    """Give the numbers in the names of nodes, where a change has any in its texts."""
    names = [*references(change.expected), *references(change.obtained)]
    if not names:
        return ()
    return tuple(number for name in (change.where, *names) for number in _numbers_in(name))


def _numbers_in(name: str) -> list[int]:
    return [int(digits) for digits in _NUMBER.findall(name if _COUNTED.search(name) else f"{name}_0")]


def _pattern(name: str) -> str:
    """Give a name without its numbers; the first of a name has none, `add`, and the second is `add_1`."""
    return _NUMBER.sub("#", _COUNTED.sub("", name))


def _with_patterns(text: str) -> str:
    names = references(text)
    patterns = {name: _pattern(name) for name in names}
    called, opening, rest = rename_references(text, patterns).partition("(")
    # What an added or removed node calls is a path where it is a module.
    return _path_pattern(called) + opening + rest if names and opening else called + opening + rest


def _path_pattern(path: str) -> str:
    return re.sub(r"(?<=\.)\d{1,9}(?=\.|\Z)", "#", path)
