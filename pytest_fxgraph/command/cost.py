"""`fxgraph cost`: what the graphs of goldens cost, and what changed between two of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from pytest_fxgraph.command.diff import diff
from pytest_fxgraph.command.golden_source import GoldenFile, golden_place
from pytest_fxgraph.command.output import DIFFERENT, SAME, add_color, print_lines
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.report.cost_text import cost_lines

_REMEDY = 'a test with fx_golden(level="cost", example_inputs=...) records them'


def add_cost(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("cost", help="print what graphs cost, or what two of them cost differently")
    parser.add_argument("golden", metavar="G", help="a golden file, a folder, or either at a git revision")
    parser.add_argument("obtained", metavar="B", nargs="?", help="what to compare with G, of the same sort")
    add_color(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.obtained is None:
        print_lines(cost(options.golden), options.color)
        return SAME
    printed = print_lines(diff(options.golden, options.obtained, level="cost"), options.color)
    return DIFFERENT if printed else SAME


def cost(name: str) -> Iterator[str]:
    """Yield the costs of a golden, or of all goldens of a folder that hold any.

    Raises GoldenError if a golden cannot be read, or none holds costs.
    """
    place = golden_place(name)
    found = 0
    for path, file in place.files.items():
        lines = _lines_of(file)
        if not lines:
            continue
        found += 1
        if place.is_folder:
            yield f"== {path}"
        yield from lines
    if not found:
        raise GoldenError(f"cannot tell what {place.name} costs: no costs are recorded there; {_REMEDY}")


def _lines_of(file: GoldenFile) -> list[str]:
    block = file.document().cost
    return [] if block is None else cost_lines(block)
