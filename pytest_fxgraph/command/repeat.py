"""`fxgraph repeat`: tell the graphs that differ between runs of one commit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_color, add_json, print_json, print_lines, tell
from pytest_fxgraph.replay.repetition import Repetition


def add_repeat(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "repeat",
        help="run a test suite several times and tell the graphs that differ",
        description="Runs pytest in fresh processes with other hash seeds, numbers of threads, orders of tests and of "
        "folders, and temporary folders. For a difference, further runs find the setting that makes it. The exit "
        "status is 0 if all graphs are the same, 1 if some differ, 2 if it cannot be told. Arguments of pytest follow "
        "`--`.",
    )
    parser.add_argument("-n", metavar="RUNS", type=_runs, default=3, help="the number of runs; default: 3")
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        type=_variable,
        action="append",
        default=[],
        help="set this variable in every second run, because graphs should not depend on it",
    )
    add_color(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _runs(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs to compare; give 2 or more")
    return int(text)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no variable; write NAME=VALUE")
    return name, value


def _run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="fxr-") as scratch:  # short: a socket's path below it is bounded
        repetition = Repetition(options.arguments, dict(options.env), Path.cwd(), Path(scratch), tell)
        repetition.run(options.n)
    if options.json:
        print_json({"unstable": repetition.unstable, "unknown": repetition.unknown})
    else:
        print_lines(repetition.lines(), options.color)
    if repetition.unstable:
        return DIFFERENT
    return FAILED if repetition.unknown else SAME
