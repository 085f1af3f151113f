"""`fxgraph show`: print goldens as people read them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from pytest_fxgraph.command.golden_source import golden_place
from pytest_fxgraph.command.output import SAME, add_color, print_lines
from pytest_fxgraph.goldens.table_rows import table_lines
from pytest_fxgraph.report.graph_text import document_lines


def add_show(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("show", help="print goldens as people read them")
    parser.add_argument("--code", action="store_true", help="print the generated code instead of the nodes")
    parser.add_argument("--full", action="store_true", help="print every node, also those of blocks that repeat")
    parser.add_argument("goldens", metavar="G", nargs="+", help="a golden file, a folder, or either at a git revision")
    add_color(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print_lines(show(options.goldens, code=options.code, folds=not options.full), options.color)
    return SAME


def show(names: list[str], *, code: bool = False, folds: bool = True) -> Iterator[str]:
    """Yield the lines of goldens, one after the other; names are files, folders or `revision:path`.

    Raises GoldenError if one cannot be read.
    """
    places = [golden_place(name) for name in names]
    is_one = sum(len(place.files) for place in places) == 1
    for place in places:
        for name, file in place.files.items():
            if not is_one:
                yield f"== {name if len(places) == 1 else file.name}"
            rows = file.rows()
            if rows is not None:
                yield from table_lines(rows)
                continue
            document = file.document()
            shown = document.code.rstrip("\n") or "# no code: it was written with code=exact, for another level"
            yield from shown.split("\n") if code else document_lines(document, folds=folds)
