"""Repeated blocks of a text, written once.

A block is the run of lines that belong to one numbered module path, such as `blocks.3`. Blocks of one family
(`blocks.*`) that are alike share a body. Each block has a line of its own, so a change in one block touches the lines
of that block alone, and two branches that change two blocks merge.

    block blocks.*:
      %up = self.up(%0)
      return %up
    %blocks_0 = blocks.0(%x) like blocks.*
    %blocks_1 = blocks.1(%blocks_0) like blocks.*
      - %up = self.up(%0)
      + %up = torch.relu(%0)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Generic, NamedTuple, TypeVar

INDENT = "  "
DIGITS = "0123456789"
_FEWEST_LINES_SAVED = 4
_MOST_DEPTH = 16  # of blocks in blocks
# Bodies of a family that no other block is like. Each is compared with all others: 1,140 blocks took 0.9 s, now 0.3.
_MOST_IN_VAIN = 32
_PATH = re.compile(r"[\w.]+\Z")
_NUMBER_AT_AN_END = re.compile(r"\d(?=\.|\Z)")

Lines = tuple[str, ...]
_Bodies = Counter[str]  # the shared bodies of each family in one level
_Context = TypeVar("_Context")
_Inside = TypeVar("_Inside")


class NotFoldableError(Exception):
    """A graph whose names collide when they are counted per block; it is written without blocks."""


class Run(NamedTuple):
    """The items of one module path that stand together."""

    start: int
    stop: int
    path: str


class Body(NamedTuple, Generic[_Inside]):
    """The lines of a block, and the other facts that its head needs."""

    lines: Lines
    inside: _Inside


class Block(NamedTuple, Generic[_Inside]):
    """A run that the text shows as a block."""

    run: Run
    body: Body[_Inside]
    template: str | None = None  # label of the shared body
    defines: Lines | None = None  # lines of the shared body, for the first block that has it
    changes: Lines = ()  # to the shared body


class Items(ABC, Generic[_Context, _Inside]):
    """Nodes, modules or tensors that a text holds a line each. `places` has the module path of each."""

    has_names: bool  # counted per block, so that each path is one block, and one that is unlike the others stays one

    def __init__(self, places: Iterable[str | None]) -> None:
        # Neighbours with one path are taken together: they are asked for once per level, and a level has few of them.
        stretches = [(place, len(list(items))) for place, items in groupby(places)]
        self._starts = [0, *accumulate([count for _, count in stretches])]
        self._prefixes = [numbered_prefixes(place or "") for place, _ in stretches]
        self._bodies: dict[Run, Body[_Inside]] = {}  # blocks in a block without a shared body are tried again

    def runs(self, start: int, stop: int, number: int) -> list[Run]:
        """Return the runs of each path that ends in the number with this place in a module path, 0 for the first."""
        found: list[Run] = []
        begin, current = start, ""
        for stretch in range(bisect_left(self._starts, start), bisect_left(self._starts, stop)):
            prefixes = self._prefixes[stretch]
            prefix = prefixes[number] if number < len(prefixes) else ""
            if prefix != current:
                if current:
                    found.append(Run(begin, self._starts[stretch], current))
                begin, current = self._starts[stretch], prefix
        return [*found, Run(begin, stop, current)] if current else found

    @abstractmethod
    def lines(self, start: int, stop: int, context: _Context) -> Iterable[str]:
        """Write items that stand together and are in no block of this level."""

    def body(self, run: Run) -> Body[_Inside]:
        """Return the lines of a block, written once."""
        if run not in self._bodies:
            self._bodies[run] = self.new_body(run)
        return self._bodies[run]

    @abstractmethod
    def new_body(self, run: Run) -> Body[_Inside]:
        """Write the lines of a block."""

    @abstractmethod
    def head(self, block: Run, inside: _Inside, context: _Context) -> str:
        """Write the line of a block, less its ending."""


def folded_lines(
    items: Items[_Context, _Inside], blocks: Iterable[Block[_Inside]], start: int, stop: int, context: _Context
) -> list[str]:
    """Write the items of one level, with the blocks of that level."""
    lines: list[str] = []
    position = start
    for block in blocks:
        lines += items.lines(position, block.run.start, context)
        if block.defines is not None:
            lines.append(f"block {block.template}:")
            lines += indented(block.defines)
        head = items.head(block.run, block.body.inside, context)
        if block.template is None:
            lines.append(f"{head}:")
            lines += indented(block.body.lines)
        else:
            # Changes stand below the line and leave it as it is, so that edits of two neighbouring blocks merge in git.
            lines.append(f"{head} like {block.template}")
            lines += indented(block.changes)
        position = block.run.stop
    lines += items.lines(position, stop, context)
    return lines


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as they stand below another line."""
    return (f"{INDENT}{line}" if line else "" for line in lines)


@lru_cache(maxsize=4096)
def numbered_prefixes(path: str) -> tuple[str, ...]:
    """Return each part of a path that ends in a number, the outermost first: `stages.1`, then `stages.1.blocks.0`."""
    return tuple([path[: match.end()] for match in _NUMBER_AT_AN_END.finditer(path)])


def family_of(path: str) -> str:
    """Return the path of all blocks that are counted along with this one: `blocks.*`."""
    return f"{path.rstrip(DIGITS)}*"


def blocks_of_level(
    items: Items[_Context, _Inside], start: int, stop: int, base: str, depth: int = 0, bodies: _Bodies | None = None
) -> list[Block[_Inside]]:
    """Choose the blocks of a level, in order. A family without a shared body gives way to families inside it.

    `base` is the path of the block that the level is in, with a dot behind it. `bodies` is a Counter of the level's
    shared bodies by family: a stage that stands twice in the level has two of one family.
    """
    bodies = Counter() if bodies is None else bodies
    if depth >= _MOST_DEPTH or stop - start <= _FEWEST_LINES_SAVED:
        return []
    runs = items.runs(start, stop, len(numbered_prefixes(base[:-1])) + depth)
    if not runs:
        return []
    times = Counter([run.path for run in runs]) if items.has_names else {}
    families: dict[str, list[Run]] = {}
    rest: list[Run] = []
    for run in runs:
        if times.get(run.path, 1) == 1 and _PATH.match(run.path):
            families.setdefault(family_of(run.path), []).append(run)
        else:
            rest.append(run)
    chosen: list[Block[_Inside]] = []
    for family, members in families.items():
        blocks = _with_templates(items, family[len(base) :], members, bodies) if len(members) > 1 else None
        if blocks is None:
            rest += members
        else:
            chosen += blocks
    for run in rest:
        chosen += blocks_of_level(items, run.start, run.stop, base, depth + 1, bodies)
    return sorted(chosen, key=lambda block: block.run.start)


def _with_templates(
    items: Items[_Context, _Inside], family: str, members: Sequence[Run], bodies: _Bodies
) -> list[Block[_Inside]] | None:
    """Give blocks that are alike a shared body; None if that saves nothing."""
    left = [(run, items.body(run)) for run in members]
    times = Counter(body.lines for _, body in left)
    blocks: list[Block[_Inside]] = []
    in_vain, before = 0, bodies[family]
    while left and in_vain < _MOST_IN_VAIN:
        template = max(left, key=lambda each: times[each[1].lines])[1].lines  # of equal counts, the first
        known = frozenset(template)
        alike, other = [], []
        saved = -len(template) - 1
        for run, body in left:
            changes = () if body.lines == template else _changes_if_few(template, known, body.lines)
            if changes is None:
                other.append((run, body))
            else:
                alike.append((run, body, changes))
                saved += len(body.lines) - 1 - len(changes)
        if len(alike) < 2 or saved < _FEWEST_LINES_SAVED:
            in_vain += 1
            blocks += [Block(run, body) for run, body, _ in alike if items.has_names]
        else:
            bodies[family] += 1
            label = family if bodies[family] == 1 else f"{family} ({bodies[family]})"
            blocks += [
                Block(run, body, label, template if place == 0 else None, changes)
                for place, (run, body, changes) in enumerate(alike)
            ]
        left = other
    blocks += [Block(run, body) for run, body in left if items.has_names]
    return blocks if bodies[family] > before else None


# Blocks that differ.


def _changes_if_few(template: Lines, known: frozenset[str], lines: Lines) -> Lines | None:
    """Return the changes that make `lines` of a template; None if more than a third of the lines differ."""
    most = max(len(template), len(lines)) // 3
    if abs(len(template) - len(lines)) > most or len(lines) - sum([line in known for line in lines]) > most:
        return None
    changes = changes_between(template, lines)
    differing = max(sum(line[0] == mark for line in changes) for mark in "-+")
    return changes if differing <= most and changed(template, changes) == lines else None


def changes_between(template: Lines, lines: Lines) -> Lines:
    """Return the lines of a template that go, marked by `-`, and those that come, marked by `+`, in order.

    A line that only comes stands behind the line before it, which has no mark.
    """
    changes: list[str] = []
    for tag, start, stop, begin, end in SequenceMatcher(None, template, lines, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if start == stop and start > 0:
            changes.append(f"  {template[start - 1]}")
        changes += [f"- {line}" for line in template[start:stop]]
        changes += [f"+ {line}" for line in lines[begin:end]]
    return tuple(changes)


def changed(template: Lines, changes: Lines) -> Lines | None:
    """Return a template with changes; None if a line that goes, or that has no mark, is not in the template."""
    lines: list[str] = []
    position = 0
    for change in changes:
        mark, line = change[:2], change[2:]
        if mark == "+ ":
            lines.append(line)
            continue
        try:
            place = template.index(line, position)
        except ValueError:
            return None
        if mark not in ("- ", "  "):
            return None
        lines += template[position : place + (mark == "  ")]
        position = place + 1
    return (*lines, *template[position:])
