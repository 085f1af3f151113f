"""Equal changes at many places of a model, reported once."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.folding import numbered_prefixes
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.report.numbered_paths import NUMBER, format_paths
from pytest_fxgraph.report.printable import counted

_MOST_COMPARED = 8
_COUNTED = re.compile(r"_\d{1,9}\Z")


@dataclass
class FoldedChange:
    """A change, and the equal changes at other places."""

    change: Change
    further: list[Change] = field(default_factory=list)
    # Step between the numbers of the first and the second change. Later changes are multiples of this step.
    _direction: tuple[int, ...] = ()

    @property
    def others(self) -> list[str]:
        """Return the names of the further places."""
        return [change.where for change in self.further]

    @property
    def is_at_one_line(self) -> bool:
        """Return whether all places are one line of the model's source in one module: a loop, or several calls."""
        return bool(self.further) and all(_is_at_line_of(change, self.change) for change in self.further)

    def describe_other_places(self) -> str:
        """Return the places and modules of the further changes as text, "" without further changes."""
        if not self.further:
            return ""
        scopes = list(dict.fromkeys(change.scope for change in self.further if change.scope))
        is_told = not scopes or all(change.subject in ("module", "state") for change in self.further)
        places = format_paths(self.others) + ("" if is_told else f", in {format_paths(scopes)}")
        return f"same change at {counted(len(self.further), 'more place')}: {places}"

    def add(self, change: Change) -> bool:
        """Add a change if its numbers are the next multiple of the step, or if it has the source line of the first.

        Return False for every other change.
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
    """Changes that each of several blocks has. Without blocks, a change by itself."""

    changes: tuple[FoldedChange, ...]
    blocks: tuple[str, ...] = ()  # module paths


def folded(changes: Sequence[Change]) -> list[FoldedChange]:
    """Group changes that differ only by numbers in names. The first changes of the groups give the order.

    Names of nodes in a change have to count along, because a wire that leads elsewhere in one block is another change.
    """
    groups: dict[tuple[str, ...], list[FoldedChange]] = {}
    found: list[FoldedChange] = []
    for change in changes:
        alike = groups.setdefault(_key(change), [])
        # A graph may differ in each block, and then has many groups. The latest groups are enough.
        if not any(group.add(change) for group in alike[-_MOST_COMPARED:]):
            found.append(FoldedChange(change))
            alike.append(found[-1])
    return found


def folded_blocks(changes: Sequence[Change]) -> list[FoldedBlock]:
    """Group changes as `folded` does, then group the results that lie in the same blocks."""
    together: dict[tuple[str, ...], list[FoldedChange]] = {}
    for number, group in enumerate(folded(changes)):
        blocks = blocks_of([change_path(change) for change in (group.change, *group.further)])
        together.setdefault(blocks or (str(number),), []).append(group)
    return [FoldedBlock(tuple(groups), blocks if len(blocks) > 1 else ()) for blocks, groups in together.items()]


def change_path(change: Change) -> str:
    """Return the path of the changed module, or of the module around the change; "" for an unknown path."""
    return change.where if change.subject in ("module", "state") else change.scope or ""


def blocks_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the outermost numbered modules that differ between all paths, one per path. Return () without them."""
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
    """Return the numbers in the names of nodes if the texts of the change name nodes."""
    names = [*references(change.expected), *references(change.obtained)]
    if not names:
        return ()
    return tuple(number for name in (change.where, *names) for number in _numbers_in(name))


def _numbers_in(name: str) -> list[int]:
    return [int(digits) for digits in NUMBER.findall(name if _COUNTED.search(name) else f"{name}_0")]


def _pattern(name: str) -> str:
    """Return a name without its numbers. The first node of a name has no number (`add`), the second is `add_1`."""
    return NUMBER.sub("#", _COUNTED.sub("", name))


def _with_patterns(text: str) -> str:
    names = references(text)
    patterns = {name: _pattern(name) for name in names}
    called, opening, rest = rename_references(text, patterns).partition("(")
    # An added or removed call of a module has the module's path as its target.
    return (_path_pattern(called) if opening else called) + opening + rest


def _path_pattern(path: str) -> str:
    return re.sub(r"(?<=\.)\d{1,9}(?=\.|\Z)", "#", path)
