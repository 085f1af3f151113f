"""`fxgraph diff`: what differs between two goldens, or between two folders of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_fxgraph.command.golden_files import golden_paths, read_golden
from pytest_fxgraph.compare.levels import compare_documents, comparison_at
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.report.words import full_section


def diff(expected: Path, obtained: Path, *, level: str) -> Iterator[str]:
    """Give the lines that say what differs; none where everything matches at the level."""
    comparison_at(level)
    ours, theirs = golden_paths(expected), golden_paths(obtained)
    if expected.is_dir() is not obtained.is_dir():
        folder, file = (expected, obtained) if expected.is_dir() else (obtained, expected)
        raise GoldenError(f"cannot compare the folder {folder} with the file {file}; give two files or two folders")
    if not expected.is_dir():
        ours, theirs = {"": expected}, {"": obtained}
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs:
            yield f"only in {expected}: {name}"
        elif name not in ours:
            yield f"only in {obtained}: {name}"
        else:
            yield from _diff_files(ours[name], theirs[name], level)


def _diff_files(expected: Path, obtained: Path, level: str) -> Iterator[str]:
    before, after = read_golden(expected), read_golden(obtained)
    difference = compare_documents(before, after, level=level)
    if not difference.is_empty:
        yield f"expected {expected}"
        yield from full_section(difference, before, after, golden=str(obtained)).split("\n")
