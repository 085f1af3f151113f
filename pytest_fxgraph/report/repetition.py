"""Where a sequence repeats itself, block after block; found in time that grows with its length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

# What changes from one block to the next, in a form that is equal for equal changes; None where the two are not alike.
# Asked with the place where the repetition begins, the place of the block, and how long it is.
Steps = Callable[[int, int, int], Hashable | None]
# Whether a block may begin at a place, if blocks are so long.
MayStart = Callable[[int, int], bool]

_MOST_CANDIDATES = 16
_WORK_PER_ITEM = 20
_FEWEST_SAVED = 4
_MODULUS = (1 << 61) - 1
_BASE = 1_000_003


@dataclass(frozen=True)
class Repetition:
    """A block that stands there several times in a row."""

    start: int
    length: int  # of one block
    count: int

    @property
    def end(self) -> int:
        """Give the place after the last block."""
        return self.start + self.length * self.count

    @property
    def saved(self) -> int:
        """Count what need not be shown."""
        return self.length * (self.count - 1)

    def starts(self) -> range:
        """Give the place at which each block begins."""
        return range(self.start, self.end, self.length)


def repetitions(tokens: Sequence[Hashable], steps: Steps, may_start: MayStart) -> list[Repetition]:
    """Find the blocks that repeat, from the left, of several that begin at one place one that saves much.

    Blocks are alike if their tokens are equal and `steps` has an answer, which has to be the same from each block to
    the next. What would save fewer than four lines is left as it is; once a great deal was tried in vain, the rest
    is, too.
    """
    search = _Search(tokens, steps, may_start)
    found: list[Repetition] = []
    place = 0
    while place < len(tokens):
        best = search.best_at(place)
        if best is None:
            place += 1
        else:
            found.append(best)
            place = best.end
    return found


class _Search:
    def __init__(self, tokens: Sequence[Hashable], steps: Steps, may_start: MayStart) -> None:
        numbers: dict[Hashable, int] = {}
        self._numbers = [numbers.setdefault(token, len(numbers) + 1) for token in tokens]
        self._steps = steps
        self._may_start = may_start
        self._following = _following(self._numbers)
        self._sums, self._powers = _prefix_sums(self._numbers)
        self._work_left = _WORK_PER_ITEM * len(tokens)

    def best_at(self, start: int) -> Repetition | None:
        """Try the distances to the next items that are like the first one."""
        best: Repetition | None = None
        following = self._following[start]
        for _ in range(_MOST_CANDIDATES):
            length = following - start
            if following < 0 or start + 2 * length > len(self._numbers) or self._work_left <= 0:
                break
            if self._may_start(start, length) and self._are_equal(start, following, length):
                found = Repetition(start, length, self._count(start, length))
                # A longer block has to save much more: it may be several short ones, and what sets them apart.
                fewest = _FEWEST_SAVED if best is None else 2 * best.saved
                if found.saved >= fewest:
                    best = found
            following = self._following[following]
        return best

    def _count(self, start: int, length: int) -> int:
        """Count the blocks that follow each other in the same steps."""
        count = 1
        first_steps: Hashable | None = None
        while start + (count + 1) * length <= len(self._numbers):
            block = start + (count - 1) * length
            if not self._are_equal(block, block + length, length):
                break
            self._work_left -= length
            steps = self._steps(start, block, length)
            if steps is None or (first_steps is not None and steps != first_steps):
                break
            first_steps = steps
            count += 1
        return count

    def _are_equal(self, start: int, other: int, length: int) -> bool:
        """Compare two runs of tokens by sums of theirs, which says yes wrongly once in a lifetime."""
        return self._sum(start, length) == self._sum(other, length)

    def _sum(self, start: int, length: int) -> int:
        return (self._sums[start + length] - self._sums[start] * self._powers[length]) % _MODULUS


def _following(numbers: Sequence[int]) -> list[int]:
    """Give for each place the next one with the same number; -1 where there is none."""
    following = [-1] * len(numbers)
    latest: dict[int, int] = {}
    for place in range(len(numbers) - 1, -1, -1):
        following[place] = latest.get(numbers[place], -1)
        latest[numbers[place]] = place
    return following


def _prefix_sums(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    sums, powers = [0], [1]
    for number in numbers:
        sums.append((sums[-1] * _BASE + number) % _MODULUS)
        powers.append(powers[-1] * _BASE % _MODULUS)
    return sums, powers
