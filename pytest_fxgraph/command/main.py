"""The command line `fxgraph`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from pytest_fxgraph import __version__
from pytest_fxgraph.command.accept import add_accept
from pytest_fxgraph.command.completion import add_completion
from pytest_fxgraph.command.cost import add_cost
from pytest_fxgraph.command.diff import add_diff
from pytest_fxgraph.command.draw import add_draw
from pytest_fxgraph.command.output import FAILED
from pytest_fxgraph.command.report import add_report
from pytest_fxgraph.command.review import add_review
from pytest_fxgraph.command.show import add_show
from pytest_fxgraph.command.unused import add_unused
from pytest_fxgraph.command.upgrade import add_upgrade
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.printable import printable_line

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
  fxgraph diff -o diff.html golden_before/ golden_after/
      the same as a page, with the graphs drawn as one overlay
  fxgraph diff HEAD~1:golden golden
      what has happened to the goldens since the last commit but one
  fxgraph draw golden/tests/test_model/test_encoder.yaml -o encoder.svg
      a picture of the graph; .html, .mmd and .dot, too
  fxgraph cost golden/tests/test_model/test_encoder.yaml
      what the graph costs, module by module, as a golden of level cost holds it
  fxgraph cost HEAD~1:golden golden
      what costs more, or less, than it did before the last commit
  fxgraph accept
      what pytest --fx-received wrote, one cause of many differences told once
  fxgraph accept --cluster 3f09ac
      these goldens are right: put them in place of the old ones
  fxgraph review
      accept, reject or skip it by a key, one cause after the other
  fxgraph unused shard1.json shard2.json
      the goldens that no test asked for in any of these runs
  fxgraph report shard1.json shard2.json -o fx.md
      one report of all shards, for a pull request
  fxgraph upgrade golden/
      rewrite goldens of older formats in the one of today
  eval "$(fxgraph completion bash)"
      complete commands, options and files in this shell; zsh and fish, too

The exit status is that of diff: 0 where nothing differs, 1 where something does, 2 after an error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 if something differs, 2 after an error.

    Raises SystemExit for wrong arguments, as argparse does.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _never_fail_at_a_character(sys.stdout, sys.stderr)
    parser = _parser()
    try:
        options = parser.parse_args(given)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except GateError as error:
        print(f"fxgraph: {printable_line(str(error))}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Whoever read this has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _never_fail_at_a_character(*streams: TextIO) -> None:
    """Make streams write characters that their encoding lacks as escapes."""
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxgraph",
        description="Read and compare golden files of graphs, without importing torch.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add_command in _COMMANDS:
        add_command(commands)
    return parser


_COMMANDS = (
    *(add_show, add_diff, add_draw, add_cost),
    *(add_accept, add_review, add_unused, add_report),
    *(add_upgrade, add_completion),
)


if __name__ == "__main__":
    sys.exit(main())
