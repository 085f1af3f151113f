"""`fxgraph show`: print the graph, the code or the costs of goldens."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from pytest_fxgraph.command.golden_source import GoldenFile, GoldenPlace, add_trust, golden_place
from pytest_fxgraph.command.output import SAME, add_output, print_json, print_lines
from pytest_fxgraph.document.text_writer import document_lines
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.goldens.table_rows import table_lines

# Part of a golden that may be absent, to the reason and the next step.
_ABSENT = {
    "code": "cannot show the code of {}: no code is recorded there; the ini key fx_code, or the argument code= of "
    "fx_golden, decides when a golden holds code; a golden that matches stays as it is, so remove it and record it "
    "with `pytest --fx-update-golden -o fx_code=always`",
    "cost": "cannot tell what {} costs: no costs are recorded there; "
    'a test with fx_golden(level="cost", example_inputs=...) records them',
}

HELP = "print goldens and models as people read them"
DESCRIPTION = (
    "Prints nodes, modules and state. With --code or --cost, goldens of a folder without code or costs are left out."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--code", action="store_true", help="print the generated code instead of the nodes")
    part.add_argument("--cost", action="store_true", help="print the costs of the graph, a line per module")
    parser.add_argument("--full", action="store_true", help="print every node, also those of blocks that repeat")
    parser.add_argument(
        "goldens", metavar="G", nargs="+", help="a golden, .pt2 or .onnx file, folder, or one at a git revision"
    )
    add_trust(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    part = "code" if options.code else "cost" if options.cost else "graph"
    if options.json:
        found = [
            each for name in options.goldens for each in _files_with(golden_place(name, trusts=options.trust), part)
        ]
        print_json([{"golden": file.name, **_data_of(file, part)} for _, file in found])
    else:
        print_lines(show(options.goldens, part=part, folds=not options.full, trusts=options.trust), options.color)
    return SAME


def show(names: list[str], *, part: str = "graph", folds: bool = True, trusts: bool = False) -> Iterator[str]:
    """Yield the lines of goldens, one golden after the other. A name is a file, a folder or `revision:path`.

    `part` is "graph", "code" or "cost". Raises GoldenError if a golden cannot be read, or if no golden has the part.
    """
    places = [golden_place(name, trusts=trusts) for name in names]
    is_one = sum(len(place.files) for place in places) == 1
    for place in places:
        for name, file in _files_with(place, part):
            if not is_one:
                yield f"== {name if len(places) == 1 else file.name}"
            yield from _lines_of(file, part, folds)


def _files_with(place: GoldenPlace, part: str) -> list[tuple[str, GoldenFile]]:
    """Return the goldens of a place that have the part. Raises GoldenError if no golden of the place has it."""
    if not place.files:
        raise GoldenError(f"cannot show {place.name}: the folder holds no golden; check the path")
    found = [(name, file) for name, file in place.files.items() if part == "graph" or _has(file, part)]
    if not found and part != "graph":
        raise GoldenError(_ABSENT[part].format(place.name))
    return found


def _has(file: GoldenFile, part: str) -> bool:
    return file.rows() is None and bool(getattr(file.document(), part))


def _lines_of(file: GoldenFile, part: str, folds: bool) -> Iterator[str]:
    rows = file.rows()
    if rows is not None:
        yield from table_lines(rows)
        return
    document = file.document()
    if part == "code":
        yield from document.code.rstrip("\n").split("\n")
    elif part == "cost" and document.cost is not None:
        from pytest_fxgraph.report.cost_text import cost_lines

        yield from cost_lines(document.cost)
    else:
        yield from document_lines(replace(document, code=""), folds=folds)


def _data_of(file: GoldenFile, part: str) -> dict[str, object]:
    rows = file.rows()
    if rows is not None:
        return {"rows": {name: row.values for name, row in rows.items()}}
    document = file.document()
    return {part: document if part == "graph" else getattr(document, part)}
