"""`fxgraph repeat`: tell the graphs that differ between runs of one commit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_output, print_answer, tell
from pytest_fxgraph.replay.repetition import Repetition

HELP = "run a test suite several times and tell the graphs that differ"
DESCRIPTION = (
    "Runs pytest in fresh processes with other hash seeds, numbers of threads, orders of tests and of folders, and "
    "temporary folders. For a difference, further runs find the setting that makes it. The exit status is 0 if all "
    "graphs are the same, 1 if some differ, 2 if it cannot be told. Arguments of pytest follow `--`."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("-n", metavar="RUNS", type=_runs, default=3, help="the number of runs; default: 3")
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        type=_variable,
        action="append",
        default=[],
        help="set this variable in every second run, because graphs should not depend on it",
    )
    add_output(parser)


def _runs(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs to compare; give 2 or more")
    return int(text)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no variable; write NAME=VALUE")
    return name, value


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    with tempfile.TemporaryDirectory(prefix="fxr-") as scratch:  # short: a socket's path below it is bounded
        repetition = Repetition(options.arguments, dict(options.env), Path.cwd(), Path(scratch), tell)
        repetition.run(options.n)
    print_answer(options, {"unstable": repetition.unstable, "unknown": repetition.unknown}, repetition.lines())
    if repetition.unstable:
        return DIFFERENT
    return FAILED if repetition.unknown else SAME
