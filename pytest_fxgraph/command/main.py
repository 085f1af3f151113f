"""The command line `fxgraph`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_fxgraph.command.diffing import diff
from pytest_fxgraph.command.showing import show
from pytest_fxgraph.compare.levels import LEVELS
from pytest_fxgraph.errors import GateError

BUILT = ("show", "diff")
PLANNED = ("accept", "draw", "unused")

SAME, DIFFERENT, TROUBLE = 0, 1, 2

_EXAMPLES = """\
examples:
  fxgraph show golden/tests/test_model/test_encoder.yaml
      the graph, a node a line, with its modules and state
  fxgraph show --code golden/tests/test_model/test_encoder.yaml
      the Python code that was generated for it
  fxgraph diff old.yaml new.yaml
      what differs, in words; nothing if they are the same graph
  fxgraph diff --level exact golden_before/ golden_after/
      all goldens of two folders, to the letter

The exit status is that of diff: 0 where nothing differs, 1 where something does, 2 in trouble.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    try:
        _refuse_unbuilt(given)
        options = parser.parse_args(given)
        return _print(_lines(options), options.command)
    except GateError as error:
        print(f"fxgraph: {error}", file=sys.stderr)
        return TROUBLE
    except BrokenPipeError:
        # Whoever read this has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return TROUBLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxgraph",
        description="Read and compare golden files of graphs, without importing torch.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    showing = commands.add_parser("show", help="print a golden as people read it")
    showing.add_argument("--code", action="store_true", help="print the generated code instead of the nodes")
    showing.add_argument("golden", type=Path, metavar="G", help="a golden file, or a folder of them")
    comparing = commands.add_parser("diff", help="say in words what differs between two goldens")
    comparing.add_argument(
        "--level", default="structure", metavar="LEVEL", help=f"{', '.join(LEVELS)}; default: %(default)s"
    )
    comparing.add_argument("expected", type=Path, metavar="A", help="a golden file, or a folder of them")
    comparing.add_argument("obtained", type=Path, metavar="B", help="what to compare with A, of the same sort")
    return parser


def _refuse_unbuilt(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] in PLANNED:
        raise GateError(
            f"cannot run `fxgraph {arguments[0]}`: this release does not have that command yet; "
            f"it has {' and '.join(BUILT)}"
        )


def _lines(options: argparse.Namespace) -> Iterator[str]:
    if options.command == "show":
        return show(options.golden, code=options.code)
    return diff(options.expected, options.obtained, level=options.level)


def _print(lines: Iterator[str], command: str) -> int:
    status = SAME
    for line in lines:
        print(line)
        status = DIFFERENT if command == "diff" else SAME
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
