"""Repeated blocks of a list. They follow each other, and a number in their module path counts up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pytest_fxgraph.report.numbered_paths import numbered_prefixes, pattern_of, steps_between

_MOST_LAYERS = 8  # in one block: a model may have five layers of local attention, then one of global attention
_FEWEST_SAVED = 4


@dataclass(frozen=True)
class Entry:
    """The facts about a node, module or tensor that matter for repetition."""

    path: str  # of its module in the model; "" if unknown
    token: Hashable  # equal for similar entries
    name: str = ""  # a second path that counts up together with `path`; the name of an input
    reads: tuple[int, ...] = ()  # positions of the entries that it reads
    is_input: bool = False


@dataclass(frozen=True)
class Repetition:
    """A block that is repeated several times in a row."""

    start: int
    length: int  # of one block
    blocks: tuple[str, ...]  # the module path of each block

    @property
    def end(self) -> int:
        """Return the position after the last block."""
        return self.start + self.length * len(self.blocks)


def repetitions(entries: Sequence[Entry]) -> list[Repetition]:
    """Find blocks that differ only by a number in their module path. The result is in order, without overlaps.

    Blocks are alike under three conditions: their tokens are equal, all paths stay or count up by one number, and each
    entry reads an entry at the same distance as in the other blocks, or one entry that all blocks read. Blocks that
    save fewer than four entries are left out.
    """
    search = _Search(entries)
    found: list[Repetition] = []
    for position in range(len(entries)):
        if not found or position >= found[-1].end:
            found += search.found_at(position)
    return found


class _Search:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        # Tokens become numbers, because a comparison of two lists of numbers tells most blocks apart. No block has an
        # input, so an input gets a number of its own.
        known: dict[Hashable, int] = {}
        self._tokens = [
            -position if entry.is_input else known.setdefault(_comparable(entry), len(known) + 1)
            for position, entry in enumerate(entries)
        ]
        # By position: for each numbered module that begins there, its siblings with itself, and its index among them.
        self._begin: list[list[tuple[list[tuple[int, str]], int]]] = []
        siblings_by_stem: dict[str, list[tuple[int, str]]] = {}
        before: list[str] = []
        for position, entry in enumerate(entries):
            self._begin.append([])
            prefixes = list(numbered_prefixes(entry.path))
            for prefix in prefixes:
                siblings = siblings_by_stem.setdefault(prefix.rstrip("0123456789"), [])
                if prefix not in before and (not siblings or siblings[-1][1] != prefix):
                    self._begin[position].append((siblings, len(siblings)))
                    siblings.append((position, prefix))
            before = prefixes

    def found_at(self, start: int) -> list[Repetition]:
        """Return the repetition that begins here, or no repetition. A longer block has to save twice as much."""
        found: list[Repetition] = []
        fewest = _FEWEST_SAVED
        for siblings, index in reversed(self._begin[start]):
            for layers in range(1, min(_MOST_LAYERS + 1, len(siblings) - index)):
                length = siblings[index + layers][0] - start
                count = self._count(start, length, fewest)
                # The last block may have more entries than the others.
                count -= self._is_within(siblings[index + layers * count - 1][1], start + length * count)
                if length * (count - 1) >= fewest:
                    blocks = [path for _, path in siblings[index : index + layers * count : layers]]
                    found = [Repetition(start, length, tuple(blocks))]
                    fewest = 2 * length * (count - 1)
        return found

    def _is_within(self, module: str, position: int) -> bool:
        """Return whether the entry at a position belongs to a module."""
        return position < len(self._entries) and f"{self._entries[position].path}.".startswith(f"{module}.")

    def _count(self, start: int, length: int, fewest_saved: int) -> int:
        """Count the blocks that follow each other by equal steps; return 1 if they save too few entries."""
        tokens = self._tokens[start : start + length]
        most = 1
        while self._tokens[start + most * length : start + (most + 1) * length] == tokens:
            most += 1
        if length * (most - 1) < fewest_saved or (steps := self._steps(start, start, length)) is None:
            return 1
        count = 2
        while count < most and self._steps(start, start + (count - 1) * length, length) == steps:
            count += 1
        return count

    def _steps(self, start: int, block: int, length: int) -> Hashable | None:
        """Return the steps from this block to the next one; None if the blocks are not alike."""
        steps: list[object] = []
        counted: set[int] = set()
        for position in range(block, block + length):
            one, other = self._entries[position], self._entries[position + length]
            for step in (steps_between(one.path, other.path), steps_between(one.name, other.name)):
                steps.append(step)
                counted.update(filter(None, step or ()))
            for read, other_read in zip(one.reads, other.reads, strict=True):
                steps.append(self._step_of_read(start, length, read, other_read))
                if steps[-1] is None:
                    return None
        # One block has one number: every path in layer 2 is one step from its counterpart in layer 1.
        return tuple(steps) if len(counted) <= 1 else None

    def _step_of_read(self, start: int, length: int, read: int, other: int) -> object:
        """Return the step between the entries that two counterparts read; None without a regular step."""
        if other - read == length:
            return "as far before"
        if other >= start:
            return None
        if read == other:
            return "the same"
        # torch.export makes each layer's parameters inputs of the graph.
        inputs = [entry for entry in (self._entries[read], self._entries[other]) if entry.is_input]
        is_like = len(inputs) == 2 and _comparable(inputs[0]) == _comparable(inputs[1])
        return steps_between(inputs[0].name, inputs[1].name) if is_like else None


def _comparable(entry: Entry) -> Hashable:
    return entry.token, pattern_of(entry.path), pattern_of(entry.name)
