"""`fxgraph draw`: write a picture of a golden to a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_fxgraph.command.golden_source import add_trust, golden_place
from pytest_fxgraph.command.output import SAME, add_json, print_answer
from pytest_fxgraph.draw.formats import ENDINGS, drawn_text, ending_of
from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.goldens.store import write_whole

HELP = "draw a golden or model as a picture"
DESCRIPTION = (
    "Nodes stand in layers, in boxes by module; of blocks that repeat, the first is shown. A page (.html) opens and "
    "closes boxes, and searches."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("--full", action="store_true", help="show every node, also those of blocks that repeat")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help=f"the picture; its name ends in {', '.join(ENDINGS)}"
    )
    parser.add_argument("golden", metavar="G", help="a golden, .pt2 or .onnx file, or one at a git revision")
    add_trust(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    ending_of(options.output)
    place = golden_place(options.golden, trusts=options.trust)
    if place.is_folder or not place.files:
        raise GoldenError(f"cannot draw {place.name}: it is no golden file; give one, as `fxgraph show` names them")
    golden = next(iter(place.files.values()))
    if golden.rows() is not None:
        raise GoldenError(f"cannot draw {golden.name}: a table has no picture; print it with `fxgraph show`")
    document = golden.document()
    if not document.nodes:
        raise GoldenError(
            f"cannot draw {golden.name}: it holds no graph, as goldens of level cost or breaks do; print it with "
            "`fxgraph show`"
        )
    text = drawn_text(document, options.output, title=golden.name, is_full=options.full)
    write_whole(Path(options.output), text, "picture")
    print_answer(options, {"wrote": options.output}, [f"wrote {options.output}"])
    return SAME
