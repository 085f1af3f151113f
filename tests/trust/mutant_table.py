"""Measures which level catches which mutation and writes the table of docs/trust.md.

`python -m tests.trust.mutant_table` shows it; `--write` puts it between the marks of docs/trust.md; `--places N` tries
at most N places of each mutation in each real model.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fixtures.mutant_trials import ALL, Trial, real_subjects, small_subjects, trials
from fixtures.mutants_table import MUTATIONS
from pytest_fxgraph.compare.levels import LEVELS

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"
START, END = "<!-- mutants: start -->\n", "<!-- mutants: end -->\n"


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
    tally = Tally()
    for most, subjects in ((ALL, small_subjects()), (places, real_subjects())):
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


def _share(caught: int, tried: int) -> str:
    """Write a share; what is not all never reads as all, what is not nothing never as nothing."""
    if caught in (0, tried):
        return "all" if caught else "-"
    return f"{min(max(round(100 * caught / tried), 1), 99)} %"


def main() -> None:
    """Measure, and show or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/trust.md")
    parser.add_argument("--places", type=int, default=5, help="places of a mutation in each real model (default 5)")
    chosen = parser.parse_args()
    started = time.perf_counter()
    tally = measured(chosen.places)
    text = "\n".join(table(tally, chosen.places, (time.perf_counter() - started) / 60)) + "\n"
    if not chosen.write:
        print(text)
        return
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(before + START + text + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
