"""The differences between eager and graph, and the message of a mismatch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pytest_fxgraph.equivalence.error_statistics import ErrorStatistics
from pytest_fxgraph.errors import Finding, MismatchError
from pytest_fxgraph.report.numeric_failure import PathStep, TensorError

# The most important kind first.
KINDS = (
    *("error", "code", "structure", "dtype", "shape", "device", "layout", "input", "value", "mutation", "state"),
    *("global state", "gradient", "rng", "aliasing", "stride", "requires_grad"),
)

# Bounds of a message: mismatches named after the first, mismatches in the section, lines, characters of a line.
_NAMED = 3
_IN_SECTION = 200
LINES = 6
WIDTH = 200


@dataclass(frozen=True)
class Mismatch(Finding):
    """One difference, with the statistics of the two tensors where there are any."""

    kind: str  # one of KINDS
    where: str  # "output['logits'][0]", "gradient of conv.weight", "buffer bn.running_mean", "input 0"
    description: str  # the rest of a sentence that begins with `where`
    statistics: ErrorStatistics | None = None

    def report_data(self) -> dict[str, object]:
        """Return the difference as plain data for reports; `TensorError` has the same fields."""
        if self.statistics is None:
            return super().report_data()
        return asdict(TensorError(self.where, self.description, self.statistics.describe(), self.statistics.histogram))


@dataclass(frozen=True)
class CheckContext:
    """The graph, the mode and the sample of a check, for messages."""

    subject: str = "graph"  # "graph", "graph after pass 2 (fuse)"
    mode: str | None = None  # None if the check did not set a mode
    sample: int = 0
    samples: int = 1
    seed: int = 0

    def __str__(self) -> str:
        facts = [f"mode {self.mode}"] if self.mode is not None else []
        if self.samples > 1:
            facts.append(f"sample {self.sample + 1} of {self.samples}, seed {self.seed}")
        return f" ({', '.join(facts)})" if facts else ""


def mismatch_error(
    mismatches: list[Mismatch], context: CheckContext, notes: tuple[str, ...] = (), path: tuple[PathStep, ...] = ()
) -> MismatchError:
    """Make the error of one comparison: at most six lines, and a section that lists the mismatches.

    The mismatch that explains the others comes first. `notes` are further findings, the most important first; `path` is
    the way of the error.
    """
    ordered = sorted(mismatches, key=lambda mismatch: KINDS.index(mismatch.kind))
    headline = f"eager and {context.subject} differ{context}: {ordered[0].sentence()}"
    lines = [headline, *_statistics_lines(ordered[0]), *_other_lines(ordered[1:]), *(f"  {note}" for note in notes)]
    section = [headline.partition(": ")[0] + ":"]
    for mismatch in ordered[:_IN_SECTION]:
        section += [f"- {mismatch.sentence()}", *_statistics_lines(mismatch)]
    if len(ordered) > _IN_SECTION:
        section.append(f"- and {len(ordered) - _IN_SECTION} more")
    section += notes
    message = "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines[:LINES])
    return MismatchError(message, "\n".join(section), tuple(ordered), tuple(map(asdict, path)))


def with_line(error: MismatchError, line: str, *, place: int = LINES - 1) -> MismatchError:
    """Return a mismatch with one more line: in the message at a place, and at the end of the section."""
    lines = str(error).splitlines()
    lines.insert(place, f"  {line}" if len(line) <= WIDTH - 2 else f"  {line[: WIDTH - 5]}...")
    return MismatchError("\n".join(lines[:LINES]), f"{error.section}\n{line}", error.mismatches, error.path)


def _statistics_lines(mismatch: Mismatch) -> list[str]:
    return [f"  {line}" for line in mismatch.statistics.describe()] if mismatch.statistics is not None else []


def _other_lines(rest: list[Mismatch]) -> list[str]:
    if not rest:
        return []
    named = "; ".join(mismatch.where if mismatch.statistics else mismatch.sentence() for mismatch in rest[:_NAMED])
    more = f"; and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return [f"  also: {named}{more}"]
