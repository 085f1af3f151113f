"""`fxgraph diff`: print the differences between two goldens, or between two folders of goldens."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pytest_fxgraph.choices import LEVELS
from pytest_fxgraph.command.golden_source import GoldenFile, GoldenPlace, add_trust, golden_place
from pytest_fxgraph.command.output import DIFFERENT, SAME, add_output, print_json, print_lines
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import GoldenError, LevelError, ReportError
from pytest_fxgraph.goldens.files import is_received, read_received
from pytest_fxgraph.goldens.table_columns import row_differences
from pytest_fxgraph.report.change_data import change_data, edit_data
from pytest_fxgraph.report.clusters import Cause, cause_parts, clustered
from pytest_fxgraph.report.outcome import Terms
from pytest_fxgraph.report.printable import counted
from pytest_fxgraph.report.progress import tracked
from pytest_fxgraph.report.text import full_section, headline


class _Pair(NamedTuple):
    """Two goldens and the difference between them. A golden that is in one place alone has no partner."""

    name: str
    expected: GoldenFile | None
    obtained: GoldenFile | None
    only_in: str = ""  # the place of a golden without a partner
    rows: tuple[str, ...] = ()  # of two tables: a line per row that differs
    documents: tuple[GraphDocument, GraphDocument] | None = None
    difference: Difference | None = None

    @property
    def is_same(self) -> bool:
        """Tell whether both goldens are there and match."""
        return not self.only_in and not self.rows and (self.difference is None or self.difference.is_empty)

    def section(self) -> str:
        """Return the difference of two graphs as text."""
        assert self.documents is not None
        assert self.difference is not None
        assert self.obtained is not None
        return full_section(self.difference, *self.documents, golden=self.obtained.name)

    def lines(self) -> list[str]:
        """Return the difference as lines; none if the goldens match."""
        if self.only_in:
            is_new = self.only_in == self.name
            return [f"only in {self.only_in}: " + (_NO_PARTNER if is_new else self.name)]
        if self.is_same or self.expected is None or self.obtained is None:
            return []
        head = f"expected {self.expected.name}"
        if not self.rows:
            return [head, *self.section().split("\n")]
        count = counted(len(self.rows), "difference")
        return [head, f"{self.obtained.name} does not match: {count}", *(f"  {line}" for line in self.rows)]


_NO_PARTNER = f"there is nothing in {os.devnull} to compare it with"

HELP = "say in words what differs between two goldens or models"
DESCRIPTION = "The exit status is 1 if something differs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "--level",
        metavar="LEVEL",
        help=f"{', '.join(LEVELS)}; default: the level of the test for a received file, else structure",
    )
    level.add_argument("--cost", action="store_const", const="cost", dest="level", help="the same as --level cost")
    parser.add_argument("expected", metavar="A", help="a golden, .pt2 or .onnx file, folder, or one at a git revision")
    parser.add_argument("obtained", metavar="B", help="what to compare with A, of the same sort")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write it as a page with pictures; its name ends in .html"
    )
    add_trust(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    if options.output is not None and not options.output.lower().endswith(".html"):
        raise ReportError(
            f"cannot write the differences to {options.output}: they are a page; give a name that ends in .html"
        )
    pairs = _compared(options.expected, options.obtained, options.level, trusts=options.trust)
    if options.output is None and not options.json:
        printed = print_lines((line for pair in pairs for line in pair.lines()), options.color)
        return DIFFERENT if printed else SAME
    found = list(pairs)
    if options.json:
        print_json([_data_of(pair, options.level) for pair in found if not pair.is_same])
    if options.output is not None:
        _write_page(found, options)
    return SAME if all(pair.is_same for pair in found) else DIFFERENT


def _compared(expected: str, obtained: str, level: str | None, *, trusts: bool) -> Iterator[_Pair]:
    """Yield each pair of goldens with its difference.

    At level `cost`, goldens of folders without costs are left out. Raises LevelError for an unknown level, and if
    nothing has costs. Raises GoldenError if a golden cannot be read or a file meets a folder.
    """
    if level is not None:
        comparison_at(level)
    places = _places(expected, obtained, trusts)
    pairs = [*_pairs(*places)]
    if not pairs:
        raise GoldenError(f"cannot compare {expected} with {obtained}: neither folder holds a golden; check the paths")
    found = [pair for pair in pairs if _has_facts_of(level, *pair[1:], is_in_folder=places[0].is_folder)]
    if not found:
        raise LevelError(
            f"cannot compare at level {level!r}: no costs are recorded in {expected} or {obtained}; "
            'a test with fx_golden(level="cost", example_inputs=...) records them'
        )
    for name, before, after in tracked(found, "compared", sys.stderr):
        if before is None or after is None:
            yield _Pair(name, before, after, places[before is None].name if places[0].is_folder else name)
            continue
        rows = _row_lines(before, after)
        if rows is not None:
            yield _Pair(name, before, after, rows=rows)
            continue
        documents = before.document(), after.document()
        terms = _terms_of(after) if level is None else Terms(level)
        difference = compare_documents(*documents, **terms._asdict())
        yield _Pair(name, before, after, documents=documents, difference=difference)


def _terms_of(obtained: GoldenFile) -> Terms:
    """Return the terms of the test that wrote a received file, the default terms for any other golden."""
    if not is_received(PurePosixPath(obtained.name)):
        return Terms()
    return Terms.from_dict(read_received(obtained.read().decode("utf-8", "replace"), obtained.name).cause)


def _has_facts_of(level: str | None, *pair: GoldenFile | None, is_in_folder: bool) -> bool:
    """Tell whether a golden of the pair has the facts of the level. A single file without a partner always counts."""
    goldens = [each for each in pair if each is not None]
    if level != "cost" or (len(goldens) == 1 and not is_in_folder):
        return True
    return any(each.rows() is not None or each.document().cost is not None for each in goldens)


def _places(expected: str, obtained: str, trusts: bool) -> tuple[GoldenPlace, GoldenPlace]:
    before, after = golden_place(expected, trusts=trusts), golden_place(obtained, trusts=trusts)
    if before.is_folder is not after.is_folder:
        folder, file = (before, after) if before.is_folder else (after, before)
        raise GoldenError(
            f"cannot compare the folder {folder.name} with the file {file.name}; give two files or two folders"
        )
    return before, after


def _pairs(expected: GoldenPlace, obtained: GoldenPlace) -> Iterator[tuple[str, GoldenFile | None, GoldenFile | None]]:
    """Yield the goldens of one name in both places. Two files are a pair whatever their names are."""
    if expected.is_folder:
        for name in sorted(expected.files.keys() | obtained.files.keys()):
            yield name, expected.files.get(name), obtained.files.get(name)
        return
    # git may name one of the two as the null device.
    before, after = (next(iter(place.files.values()), None) for place in (expected, obtained))
    if found := after or before:
        yield found.name, before, after


def _row_lines(expected: GoldenFile, obtained: GoldenFile) -> tuple[str, ...] | None:
    """Return a line per row that differs, None for two graphs. Raises GoldenError for a table and a graph."""
    before, after = expected.rows(), obtained.rows()
    if before is None and after is None:
        return None
    if before is None or after is None:
        table, graph = (expected, obtained) if after is None else (obtained, expected)
        raise GoldenError(
            f"cannot compare {table.name}, a table, with {graph.name}, which is none; give two of one kind"
        )
    return tuple(row_differences(before, after))


def _data_of(pair: _Pair, level: str | None) -> dict[str, object]:
    data: dict[str, object] = {"golden": pair.name, "level": _level_of(pair, level)}
    if pair.only_in:
        return {**data, "only_in": pair.only_in}
    if pair.difference is None:
        return {**data, "rows": pair.rows}
    told = {"headline": headline(pair.difference), "edits": edit_data(pair.difference)}
    return {**data, **told, "changes": change_data(pair.difference, "")}


def _level_of(pair: _Pair, level: str | None) -> str:
    return level or (pair.difference.level if pair.difference is not None else Terms().level)


def _write_page(found: Sequence[_Pair], options: argparse.Namespace) -> None:
    """Write the differences as a page, and print a line per golden that differs."""
    from pytest_fxgraph.draw.page import Entry, PageContent, PageGraph, page_text
    from pytest_fxgraph.goldens.store import write_whole

    graphs: list[PageGraph] = []
    causes: list[Cause] = []
    others: dict[str, list[str]] = {}
    printed: list[str] = []
    for pair in found:
        if pair.only_in:
            others.setdefault(f"only in {pair.only_in}", []).append(pair.name)
        elif pair.is_same:
            others.setdefault("matched", []).append(pair.name)
        elif pair.documents is None or pair.difference is None:
            others.setdefault("rows that differ", []).extend(f"{pair.name} {line}" for line in pair.rows)
            printed += pair.lines()
        else:
            modules = sorted({change.scope for change in pair.difference.changes if change.scope})
            causes.append(Cause(pair.name, headline(pair.difference), cause_parts(pair.difference, pair.name)))
            entry = Entry(modules=modules, edits=edit_data(pair.difference))
            graphs.append(
                PageGraph(pair.name, "mismatch", causes[-1].headline, pair.section(), *pair.documents, entry=entry)
            )
            printed.append(f"{pair.name}: {causes[-1].headline}")
    is_same = all(pair.is_same for pair in found)
    differing = len(graphs) + sum(bool(pair.rows) for pair in found)
    summary = f"{differing} of {len(found)} goldens differ at level {options.level or Terms().level}"
    if len(found) == 1 and graphs:
        summary = f"the graphs differ at level {_level_of(found[0], options.level)}"
    content = PageContent(
        f"{options.expected} and {options.obtained}",
        "nothing differs" if is_same else summary,
        clustered(causes) if len(found) > 1 else (),
        others=others if len(found) > 1 or not graphs else {},
    )
    write_whole(Path(options.output), page_text(content, graphs), "page")
    print_lines([*printed, f"wrote {options.output}"] if not options.json else [])
