"""Lines on their way to the terminal: control characters made visible, colour where it is wanted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from pytest_fxgraph.report.colour import coloured_spans
from pytest_fxgraph.report.printable import printable_line

# What the command ends with.
SAME, DIFFERENT, FAILED = 0, 1, 2

_COLOUR_CODES = {"bold": 1, "light": 2, "red": 31, "green": 32, "cyan": 36}


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option `--color` to a parser."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output; auto, the default: on a terminal, and as NO_COLOR and FORCE_COLOR say",
    )


def print_lines(lines: Iterable[str], color: str = "never") -> int:
    """Print lines as they come, and return how many there were; `color` is "auto", "always" or "never"."""
    is_wanted = wants_colour(color)
    count = 0
    for line in lines:
        safe = printable_line(line)
        print("".join(_coloured(*span) for span in coloured_spans(safe)) if is_wanted else safe)
        count += 1
    return count


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{_COLOUR_CODES[style]}m{text}\x1b[0m" if style else text


def wants_colour(color: str) -> bool:
    """Decide as pytest does: by the option, then NO_COLOR, then FORCE_COLOR, then whether stdout is a terminal."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
