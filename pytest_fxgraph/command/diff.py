"""`fxgraph diff`: print what differs between two goldens, or between two folders of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from pytest_fxgraph.choices import LEVELS
from pytest_fxgraph.command.golden_source import GoldenFile, GoldenPlace, golden_place
from pytest_fxgraph.command.output import DIFFERENT, SAME, add_color, print_lines
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
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
    """Yield the lines that say what differs; none if everything matches at the level.

    Raises LevelError for an unknown level, GoldenError if a golden cannot be read or a file meets a folder.
    """
    comparison_at(level)
    before, after = golden_place(expected), golden_place(obtained)
    if before.is_folder is not after.is_folder:
        folder, file = (before, after) if before.is_folder else (after, before)
        raise GoldenError(
            f"cannot compare the folder {folder.name} with the file {file.name}; give two files or two folders"
        )
    yield from _diff_folders(before, after, level) if before.is_folder else _diff_places(before, after, level)


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
    before, after = next(iter(expected.files.values()), None), next(iter(obtained.files.values()), None)
    if before is not None and after is not None:
        yield from _diff_files(before, after, level)
    elif found := before or after:
        yield f"only in {found.name}: there is nothing in {os.devnull} to compare it with"


def _diff_files(expected: GoldenFile, obtained: GoldenFile, level: str) -> Iterator[str]:
    before, after = expected.document(), obtained.document()
    difference = compare_documents(before, after, level=level)
    if not difference.is_empty:
        yield f"expected {expected.name}"
        yield from full_section(difference, before, after, golden=obtained.name).split("\n")
