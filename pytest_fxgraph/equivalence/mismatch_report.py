"""The letter that tells of a mismatch: at most six lines, and a section that holds everything."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_fxgraph.equivalence.mismatch import Mismatch, MismatchError, by_weight

_LISTED = 3
_IN_SECTION = 200
_LINE = 200


@dataclass(frozen=True)
class Circumstances:
    """Under which circumstances two lanes were compared."""

    subject: str = "graph"  # "graph", "transformed graph (after pass 2, fuse)"
    mode: str | None = None  # None where the model was left in the mode it was in
    sample: int = 0
    samples: int = 1
    seed: int = 0

    def __str__(self) -> str:
        facts = [f"mode {self.mode}"] if self.mode is not None else []
        if self.samples > 1:
            facts.append(f"sample {self.sample + 1} of {self.samples}, seed {self.seed}")
        return f" ({', '.join(facts)})" if facts else ""


def mismatch_error(
    mismatches: list[Mismatch], circumstances: Circumstances, notes: tuple[str, ...] = ()
) -> MismatchError:
    """Word the mismatches of one comparison; notes are what else was found out, the most telling first."""
    ordered = by_weight(mismatches)
    headline = f"eager and {circumstances.subject} differ{circumstances}: {ordered[0].sentence()}"
    lines = [headline, *_statistics_lines(ordered[0]), *_others(ordered[1:]), *(f"  {note}" for note in notes)]
    section = [headline.partition(": ")[0] + ":"]
    for mismatch in ordered[:_IN_SECTION]:
        section += [f"- {mismatch.sentence()}", *_statistics_lines(mismatch)]
    if len(ordered) > _IN_SECTION:
        section.append(f"- and {len(ordered) - _IN_SECTION} more")
    section += notes
    return MismatchError("\n".join(_bounded(line) for line in lines[:6]), "\n".join(section), tuple(ordered))


def _statistics_lines(mismatch: Mismatch) -> list[str]:
    return [f"  {line}" for line in mismatch.statistics.words()] if mismatch.statistics is not None else []


def _others(rest: list[Mismatch]) -> list[str]:
    if not rest:
        return []
    named = "; ".join(mismatch.where if mismatch.statistics else mismatch.sentence() for mismatch in rest[:_LISTED])
    more = f"; and {len(rest) - _LISTED} more" if len(rest) > _LISTED else ""
    return [f"  also: {named}{more}"]


def _bounded(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."
