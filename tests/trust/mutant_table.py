"""Measures which level catches which mutation and writes the table of docs/trust.md.

`python -m tests.trust.mutant_table` shows it; `--write` puts it between the marks of docs/trust.md; `--places N` tries
at most N places of each mutation in each real model. With `--captured`, the same for graphs that torch captured, of
which the document has the sums.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fixtures.captured_subjects import captured_subjects
from fixtures.mutant_trials import ALL, Trial, real_subjects, small_subjects, trials
from fixtures.mutant_trials import GRAPH_LEVELS as LEVELS
from fixtures.mutants_table import MUTATIONS
from fxcore import GraphModule

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"
MARKS = "<!-- {0}: start -->\n", "<!-- {0}: end -->\n"
PLACES, PLACES_IN_A_CAPTURED_GRAPH = 5, 2


@dataclass
class Tally:
    """Trials counted by mutation and level."""

    tried: Counter[str] = field(default_factory=Counter)
    caught: Counter[tuple[str, str]] = field(default_factory=Counter)
    models: set[str] = field(default_factory=set)
    out_of_order: int = 0

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        name = trial.mutation.name
        self.models.add(trial.model)
        self.tried[name] += 1
        self.caught.update((name, level) for level in trial.caught_at)
        self.out_of_order += not trial.keeps_the_order_of_levels

    def total(self, level: str) -> int:
        """Count the mutants that a level catches."""
        return sum(count for (_, caught_at), count in self.caught.items() if caught_at == level)


def measured(places: int) -> Tally:
    """Try all places in small models, and some in real ones."""
    return tallied((ALL, small_subjects()), (places, real_subjects()))


def tallied(*chosen: tuple[int, Iterable[tuple[str, GraphModule]]]) -> Tally:
    """Try so many places of each mutation in some graphs."""
    tally = Tally()
    for most, subjects in chosen:
        for name, gm in subjects:
            for trial in trials(name, gm, most):
                tally.add(trial)
    return tally


def table(tally: Tally, places: int, minutes: float) -> Iterator[str]:
    """Yield the lines of the table."""
    tried = sum(tally.tried.values())
    yield (
        f"{tried} mutants of {len(tally.models)} models by {len(MUTATIONS)} mutations (all places in small models, at "
        f"most {places} places a mutation in each real one), measured in {minutes:.0f} minutes: "
        f"**{tally.total('structure')} caught at `structure`, {tried - tally.total('structure')} missed**; mutants "
        f"that break the order of levels: {tally.out_of_order}."
    )
    yield ""
    yield f"| mutation | mutants | {' | '.join(f'`{level}`' for level in LEVELS)} |"
    yield f"|---|---:|{'---:|' * len(LEVELS)}"
    for mutation in MUTATIONS:
        name = mutation.name
        shares = [_share(tally.caught[name, level], tally.tried[name]) for level in LEVELS]
        yield f"| {name.replace('_', ' ')} | {tally.tried[name]} | {' | '.join(shares)} |"
    shares = [_share(tally.total(level), tried) for level in LEVELS]
    yield f"| **all** | {tried} | {' | '.join(shares)} |"


def sums(tally: Tally, places: int, minutes: float) -> Iterator[str]:
    """Yield the lines that sum up what was found in graphs that torch captured."""
    tried = sum(tally.tried.values())
    missed = tried - tally.total("structure")
    yield (
        f"{tried} mutants of {len(tally.models)} such graphs by {len(tally.tried)} mutations (at most {places} places "
        f"of a mutation in each), measured in {minutes:.0f} minutes: **{tried - missed} caught at `structure`, "
        f"{missed} missed**; mutants that break the order of levels: {tally.out_of_order}."
    )
    yield ""
    yield f"| | mutants | {' | '.join(f'`{level}`' for level in LEVELS)} |"
    yield f"|---|---:|{'---:|' * len(LEVELS)}"
    shares = [_share(tally.total(level), tried) for level in LEVELS]
    yield f"| **captured by torch** | {tried} | {' | '.join(shares)} |"


def _share(caught: int, tried: int) -> str:
    """Write a share; what is not all never reads as all, what is not nothing never as nothing."""
    if caught in (0, tried):
        return "all" if caught else "-"
    return f"{min(max(round(100 * caught / tried), 1), 99)} %"


def main() -> None:
    """Measure, and show or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/trust.md")
    parser.add_argument("--captured", action="store_true", help="measure graphs that torch captured")
    parser.add_argument("--places", type=int, help="places of a mutation in each real model or captured graph")
    chosen = parser.parse_args()
    places = chosen.places or (PLACES_IN_A_CAPTURED_GRAPH if chosen.captured else PLACES)
    started = time.perf_counter()
    tally = tallied((places, captured_subjects())) if chosen.captured else measured(places)
    minutes = (time.perf_counter() - started) / 60
    text = "\n".join((sums if chosen.captured else table)(tally, places, minutes)) + "\n"
    if chosen.write:
        put_between("captured" if chosen.captured else "mutants", text)
    else:
        print(text)


def put_between(marks: str, text: str) -> None:
    """Replace what stands between two marks of the document."""
    start, end = (mark.format(marks) for mark in MARKS)
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(start)
    after = rest.partition(end)[2]
    DOCUMENT.write_text(before + start + text + end + after, encoding="utf-8")


if __name__ == "__main__":
    main()
