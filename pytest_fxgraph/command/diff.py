"""`fxgraph diff`: what differs between two goldens, or between two folders of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from pytest_fxgraph.command.golden_source import GoldenFile, GoldenPlace, golden_place
from pytest_fxgraph.command.output import DIFFERENT, SAME, add_color, print_lines
from pytest_fxgraph.compare.levels import LEVELS, compare_documents, comparison_at
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.report.text import full_section


def add_diff(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("diff", help="say in words what differs between two goldens")
    parser.add_argument(
        "--level", default="structure", metavar="LEVEL", help=f"{', '.join(LEVELS)}; default: %(default)s"
    )
    parser.add_argument("expected", metavar="A", help="a golden file, a folder of them, or either at a git revision")
    parser.add_argument("obtained", metavar="B", help="what to compare with A, of the same sort")
    add_color(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    printed = print_lines(diff(options.expected, options.obtained, level=options.level), options.color)
    return DIFFERENT if printed else SAME


def diff(expected: str, obtained: str, *, level: str) -> Iterator[str]:
    """Give the lines that say what differs; none where everything matches at the level."""
    comparison_at(level)
    ours, theirs = golden_place(expected), golden_place(obtained)
    if ours.is_folder is not theirs.is_folder:
        folder, file = (ours, theirs) if ours.is_folder else (theirs, ours)
        raise GoldenError(
            f"cannot compare the folder {folder.name} with the file {file.name}; give two files or two folders"
        )
    yield from _diff_folders(ours, theirs, level) if ours.is_folder else _diff_places(ours, theirs, level)


def _diff_folders(expected: GoldenPlace, obtained: GoldenPlace, level: str) -> Iterator[str]:
    for name in sorted(expected.files.keys() | obtained.files.keys()):
        if name not in obtained.files:
            yield f"only in {expected.name}: {name}"
        elif name not in expected.files:
            yield f"only in {obtained.name}: {name}"
        else:
            yield from _diff_files(expected.files[name], obtained.files[name], level)


def _diff_places(expected: GoldenPlace, obtained: GoldenPlace, level: str) -> Iterator[str]:
    """Compare two files, of which git may name one as the null device."""
    ours, theirs = next(iter(expected.files.values()), None), next(iter(obtained.files.values()), None)
    if ours is not None and theirs is not None:
        yield from _diff_files(ours, theirs, level)
    elif ours is not theirs:
        there = ours or theirs
        yield f"only in {there.name if there else ''}: there is nothing in {os.devnull} to compare it with"


def _diff_files(expected: GoldenFile, obtained: GoldenFile, level: str) -> Iterator[str]:
    before, after = expected.document(), obtained.document()
    difference = compare_documents(before, after, level=level)
    if not difference.is_empty:
        yield f"expected {expected.name}"
        yield from full_section(difference, before, after, golden=obtained.name).split("\n")
