"""Changes that are the same at many places of a model, reported once."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.report.numbered_paths import NUMBER, format_paths, numbered_prefixes

_MOST_COMPARED = 8
_COUNTED = re.compile(r"_\d{1,9}\Z")


@dataclass
class FoldedChange:
    """A change and the further ones that are the same at other places."""

    change: Change
    further: list[Change] = field(default_factory=list)
    # By how much each number in a further change is greater; those of others are multiples of it.
    _direction: tuple[int, ...] = ()

    @property
    def others(self) -> list[str]:
        """Return the names of the further places."""
        return [change.where for change in self.further]

    @property
    def is_at_one_line(self) -> bool:
        """Tell whether all places are one line of the model's source in one module: a loop, or several calls."""
        return bool(self.further) and all(_is_at_line_of(change, self.change) for change in self.further)

    def describe_other_places(self) -> str:
        """Say at which places, and in which modules, the further changes are; empty if there are none."""
        if not self.further:
            return ""
        scopes = list(dict.fromkeys(change.scope for change in self.further if change.scope))
        is_told = not scopes or all(change.subject in ("module", "state") for change in self.further)
        places = format_paths(self.others) + ("" if is_told else f", in {format_paths(scopes)}")
        return f"same change at {len(self.further)} more place{'s' if len(self.further) > 1 else ''}: {places}"

    def add(self, change: Change) -> bool:
        """Add a change whose numbers count along with those of the first two, or at the very line of the first.

        Returns False for any other.
        """
        if _is_at_line_of(change, self.change):
            self.further.append(change)
            return True
        steps = tuple(map(operator.sub, _numbers(change), _numbers(self.change)))
        direction = self._direction or steps
        leading = next((place for place, step in enumerate(direction) if step), 0)
        pairs = zip(steps, direction, strict=True)
        if any(step < 0 or step * direction[leading] != other * steps[leading] for step, other in pairs):
            return False
        self.further.append(change)
        self._direction = direction
        return True


def _is_at_line_of(change: Change, other: Change) -> bool:
    return change.source is not None and (change.source, change.scope) == (other.source, other.scope)


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
    groups: dict[tuple[str, ...], list[FoldedChange]] = {}
    found: list[FoldedChange] = []
    for change in changes:
        alike = groups.setdefault(_key(change), [])
        # The latest are enough to look at; in a graph where each block differs, there would be many.
        if not any(group.add(change) for group in alike[-_MOST_COMPARED:]):
            found.append(FoldedChange(change))
            alike.append(found[-1])
    return found


def folded_blocks(changes: Sequence[Change]) -> list[FoldedBlock]:
    """Group changes as `folded` does, and those that the same blocks have in common with each other."""
    together: dict[tuple[str, ...], list[FoldedChange]] = {}
    for number, group in enumerate(folded(changes)):
        blocks = blocks_of([change_path(change) for change in (group.change, *group.further)])
        together.setdefault(blocks or (str(number),), []).append(group)
    return [FoldedBlock(tuple(groups), blocks if len(blocks) > 1 else ()) for blocks, groups in together.items()]


def change_path(change: Change) -> str:
    """Return the path of the module that a change is in, or about; empty if that is not known."""
    return change.where if change.subject in ("module", "state") else change.scope or ""


def blocks_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the repeated module that each path lies in, the outermost that all differ in; () if there is none."""
    for blocks in zip(*map(numbered_prefixes, paths), strict=False):
        if 1 < len(blocks) == len(set(blocks)):
            return blocks
    return ()


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
    return [int(digits) for digits in NUMBER.findall(name if _COUNTED.search(name) else f"{name}_0")]


def _pattern(name: str) -> str:
    """Give a name without its numbers; the first of a name has none, `add`, and the second is `add_1`."""
    return NUMBER.sub("#", _COUNTED.sub("", name))


def _with_patterns(text: str) -> str:
    names = references(text)
    patterns = {name: _pattern(name) for name in names}
    called, opening, rest = rename_references(text, patterns).partition("(")
    # What an added or removed node calls is a path where it is a module.
    return _path_pattern(called) + opening + rest if names and opening else called + opening + rest


def _path_pattern(path: str) -> str:
    return re.sub(r"(?<=\.)\d{1,9}(?=\.|\Z)", "#", path)
