"""Do headlines name the edit? `python -m benchmarks.edit_words` scores differences of pairs with a known edit.

Measured are the share of pairs whose headline names the edit, the share of changes that an edit explains, and the lines
that a reader must read. `--show` prints each pair that is not named; `--write` puts the table into docs/trust.md.
XLA's hlo_diff is evaluated in the same way: https://openxla.org/xla/tools.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fixtures.edit_pairs.pair import EditPair
from fixtures.edit_pairs.sources import SOURCES
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.report.text import full_section, headline

DOCUMENT = Path(__file__).parents[1] / "docs" / "trust.md"
MARKS = "<!-- edit words: start -->\n", "<!-- edit words: end -->\n"


class Score(NamedTuple):
    """How well one difference tells its edit."""

    pair: EditPair
    headline: str
    is_named: bool
    changes: int
    explained: int
    lines: int  # of the whole section


def scored(pair: EditPair) -> Score:
    """Compare both sides at level `structure` and score the words."""
    expected, obtained = pair.documents()
    difference = compare_documents(expected, obtained)
    told = headline(difference)
    section = full_section(difference, expected, obtained, golden="golden/test_model/test_graph.yaml")
    return Score(
        pair,
        told,
        pair.is_named_by(told),
        len(difference.changes) + difference.omitted,
        len(difference.changes) - len(difference.rest),
        len(section.splitlines()),
    )


def table_of(scores: Mapping[str, Sequence[Score]]) -> str:
    """Return the scores as a table, a line for each source."""
    rows = [
        "| source of the pairs | pairs | named in the headline | changes in edits | lines to read, median |",
        "|---|---:|---:|---:|---:|",
    ]
    every = [score for each in scores.values() for score in each]
    for source, found in [*scores.items(), ("all", every)]:
        named = sum(score.is_named for score in found)
        changes, explained = sum(score.changes for score in found), sum(score.explained for score in found)
        lines = statistics.median(score.lines for score in found)
        shares = f"{named} ({named / len(found):.0%}) | {explained} of {changes} ({explained / changes:.1%})"
        rows.append(f"| {source} | {len(found)} | {shares} | {lines:g} |")
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; with --show also each headline that does not name its edit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the pairs that are not named or not explained")
    parser.add_argument("--all", action="store_true", help="print every pair")
    parser.add_argument("--write", action="store_true", help=f"write the table into {DOCUMENT.name}")
    options = parser.parse_args(arguments)
    scores = {source: [scored(pair) for pair in pairs] for source, pairs in SOURCES.items()}
    for found in scores.values():
        for score in found:
            if options.all or (options.show and (not score.is_named or score.explained < score.changes)):
                print(_shown(score))
    table = table_of(scores)
    print(table)
    if options.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        head, rest = text.split(MARKS[0])
        DOCUMENT.write_text(f"{head}{MARKS[0]}{table}{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


def _shown(score: Score) -> str:
    verdict = "named" if score.is_named else f"not named ({', '.join(score.pair.headline)})"
    counts = f"{score.explained} of {score.changes} changes explained, {score.lines} lines"
    return f"{score.pair.name}: {verdict}, {counts}\n    {score.headline}"


if __name__ == "__main__":
    main()
