"""Lines on their way to the terminal: control characters made visible, colour where it is wanted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from pytest_fxgraph.report.colour import coloured
from pytest_fxgraph.report.printable import printable

WHEN = ("auto", "always", "never")


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option that says when to use colour."""
    parser.add_argument(
        "--color",
        choices=WHEN,
        default="auto",
        help="colour the output; auto, the default: on a terminal, and as NO_COLOR and FORCE_COLOR say",
    )


def print_lines(lines: Iterable[str], color: str = "never") -> int:
    """Print lines as they come, and tell how many there were."""
    is_wanted = wants_colour(color)
    count = 0
    for line in lines:
        safe = printable(line)
        print(coloured(safe) if is_wanted else safe)
        count += 1
    return count


def wants_colour(color: str) -> bool:
    """Decide as pytest does: the option, then NO_COLOR, then FORCE_COLOR, then whether somebody is looking."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


SAME, DIFFERENT, TROUBLE = 0, 1, 2
