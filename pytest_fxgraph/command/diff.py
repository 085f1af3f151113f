"""`fxgraph diff`: print what differs between two goldens, or between two folders of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_fxgraph.choices import LEVELS
from pytest_fxgraph.command.golden_source import GoldenFile, GoldenPlace, golden_place
from pytest_fxgraph.command.output import DIFFERENT, SAME, add_color, print_lines
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
from pytest_fxgraph.draw.page import PageContent, PageGraph, page_text
from pytest_fxgraph.errors import GoldenError, ReportError
from pytest_fxgraph.goldens.store import write_whole
from pytest_fxgraph.goldens.table_columns import row_differences
from pytest_fxgraph.report.clusters import Cause, cause_parts, clustered
from pytest_fxgraph.report.progress import tracked
from pytest_fxgraph.report.text import full_section, headline


def add_diff(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("diff", help="say in words what differs between two goldens")
    parser.add_argument(
        "--level", default="structure", metavar="LEVEL", help=f"{', '.join(LEVELS)}; default: %(default)s"
    )
    parser.add_argument("expected", metavar="A", help="a golden file, a folder of them, or either at a git revision")
    parser.add_argument("obtained", metavar="B", help="what to compare with A, of the same sort")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write it as a page with pictures; its name ends in .html"
    )
    add_color(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.output is not None:
        return _write_page(options.expected, options.obtained, options.level, options.output)
    printed = print_lines(diff(options.expected, options.obtained, level=options.level), options.color)
    return DIFFERENT if printed else SAME


def _write_page(expected: str, obtained: str, level: str, output: str) -> int:
    """Write what differs as a page, print a line for each golden, and return the exit status."""
    if not output.lower().endswith(".html"):
        raise ReportError(f"cannot write the differences to {output}: they are a page; give a name that ends in .html")
    comparison_at(level)
    graphs: list[PageGraph] = []
    causes: list[Cause] = []
    others: dict[str, list[str]] = {}
    tables: list[str] = []
    places = _places(expected, obtained)
    pairs = [*_pairs(*places)]
    for name, before, after in tracked(pairs, "compared", sys.stderr):
        if before is None or after is None:
            others.setdefault(f"only in {places[before is None].name}", []).append(name)
            continue
        if _are_tables(before, after):
            lines = [*_table_lines(before, after)]
            if lines:
                tables.append(name)
                others.setdefault("rows that differ", []).extend(f"{name} {line.strip()}" for line in lines[2:])
            else:
                others.setdefault("matched", []).append(name)
            print_lines(lines)
            continue
        documents = before.document(), after.document()
        difference = compare_documents(*documents, level=level)
        if difference.is_empty:
            others.setdefault("matched", []).append(name)
            continue
        words = full_section(difference, *documents, golden=after.name)
        causes.append(Cause(name, headline(difference), cause_parts(difference, name)))
        graphs.append(PageGraph(name, "mismatch", causes[-1].headline, words, *documents))
        print_lines([f"{name}: {causes[-1].headline}"])
    is_same = sum(map(len, others.values())) == len(others.get("matched", ())) and not graphs
    summary = f"{len(graphs) + len(tables)} of {len(pairs)} goldens differ at level {level}"
    if len(pairs) == 1 and graphs:
        summary = f"the graphs differ at level {level}"
    content = PageContent(
        f"{expected} and {obtained}",
        "nothing differs" if is_same else summary,
        clustered(causes) if len(pairs) > 1 else (),
        others=others if len(pairs) > 1 or tables or is_same else {},
    )
    write_whole(Path(output), page_text(content, graphs), "page")
    print_lines([f"wrote {output}"])
    return SAME if is_same else DIFFERENT


def diff(expected: str, obtained: str, *, level: str) -> Iterator[str]:
    """Yield the lines that say what differs; none if everything matches at the level.

    Raises LevelError for an unknown level, GoldenError if a golden cannot be read or a file meets a folder.
    """
    comparison_at(level)
    places = _places(expected, obtained)
    for name, before, after in _pairs(*places):
        if before is not None and after is not None:
            yield from _diff_files(before, after, level)
        elif places[0].is_folder:
            yield f"only in {places[before is None].name}: {name}"
        else:
            yield f"only in {name}: there is nothing in {os.devnull} to compare it with"


def _places(expected: str, obtained: str) -> tuple[GoldenPlace, GoldenPlace]:
    before, after = golden_place(expected), golden_place(obtained)
    if before.is_folder is not after.is_folder:
        folder, file = (before, after) if before.is_folder else (after, before)
        raise GoldenError(
            f"cannot compare the folder {folder.name} with the file {file.name}; give two files or two folders"
        )
    return before, after


def _pairs(expected: GoldenPlace, obtained: GoldenPlace) -> Iterator[tuple[str, GoldenFile | None, GoldenFile | None]]:
    """Yield by name what is compared with what; two files are a pair whatever they are called."""
    if expected.is_folder:
        for name in sorted(expected.files.keys() | obtained.files.keys()):
            yield name, expected.files.get(name), obtained.files.get(name)
        return
    # git may name one of the two as the null device.
    before, after = (next(iter(place.files.values()), None) for place in (expected, obtained))
    if found := after or before:
        yield found.name, before, after


def _are_tables(expected: GoldenFile, obtained: GoldenFile) -> bool:
    """Tell whether one of two files is a table; the other then has to be one, too."""
    return expected.rows() is not None or obtained.rows() is not None


def _table_lines(expected: GoldenFile, obtained: GoldenFile) -> Iterator[str]:
    before, after = expected.rows(), obtained.rows()
    if before is None or after is None:
        table, graph = (expected, obtained) if after is None else (obtained, expected)
        raise GoldenError(
            f"cannot compare {table.name}, a table, with {graph.name}, which is none; give two of one kind"
        )
    lines = [*row_differences(before, after)]
    if lines:
        yield f"expected {expected.name}"
        yield f"{obtained.name} does not match: {len(lines)} difference{'' if len(lines) == 1 else 's'}"
        yield from (f"  {line}" for line in lines)


def _diff_files(expected: GoldenFile, obtained: GoldenFile, level: str) -> Iterator[str]:
    if _are_tables(expected, obtained):
        yield from _table_lines(expected, obtained)
        return
    before, after = expected.document(), obtained.document()
    difference = compare_documents(before, after, level=level)
    if not difference.is_empty:
        yield f"expected {expected.name}"
        yield from full_section(difference, before, after, golden=obtained.name).split("\n")
