"""What was found to differ between eager and graph, and the errors that carry it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_fxgraph.equivalence.error_statistics import ErrorStatistics
from pytest_fxgraph.errors import GateError

# In the order in which they are worth reading.
KINDS = ("error", "code", "structure", "dtype", "shape", "device", "layout", "value", "mutation", "state", "gradient",
         "rng", "aliasing", "stride", "requires_grad")  # fmt: skip


@dataclass(frozen=True)
class Mismatch:
    """One thing that differs."""

    kind: str  # one of KINDS
    where: str  # "output['logits'][0]", "gradient of conv.weight", "buffer bn.running_mean", "input 0"
    words: str  # the rest of a sentence that begins with `where`
    statistics: ErrorStatistics | None = None

    def sentence(self) -> str:
        """Say it in one line."""
        return f"{self.where} {self.words}"


def by_weight(mismatches: list[Mismatch]) -> list[Mismatch]:
    """Sort so that the mismatch that explains the others comes first; the order found is kept within a kind."""
    return sorted(mismatches, key=lambda mismatch: KINDS.index(mismatch.kind))


class MismatchError(AssertionError):
    """Eager and graph differ. `section` tells the whole story, `mismatches` holds it as data."""

    def __init__(self, words: str, section: str, mismatches: tuple[Mismatch, ...]) -> None:
        super().__init__(words)
        self.section = section
        self.mismatches = mismatches


class EagerError(GateError, RuntimeError):
    """The model itself failed, so there is nothing to compare a graph with."""
