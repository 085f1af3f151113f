"""Output of the command: lines with visible control characters and colour, or one JSON value."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pytest_fxgraph.report.colour import coloured_spans
from pytest_fxgraph.report.printable import printable_line

# Exit statuses of the command.
SAME, DIFFERENT, FAILED = 0, 1, 2
INTERRUPTED = 130  # as shells have it

_COLOUR_CODES = {"bold": 1, "light": 2, "red": 31, "green": 32, "cyan": 36}


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options `--color` and `--json` to a parser."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output; auto, the default: on a terminal, and as NO_COLOR and FORCE_COLOR say",
    )
    add_json(parser)


def add_json(parser: Any) -> None:
    """Add the option `--json` to a parser or to a group of options."""
    parser.add_argument("--json", action="store_true", help="print one JSON value, for other programs")


def print_answer(options: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """Print a value as JSON if the options ask for JSON; else print lines, coloured if the verb has `--color`."""
    if options.json:
        print_json(value)
    else:
        print_lines(lines, getattr(options, "color", "never"))


def print_lines(lines: Iterable[str], color: str = "never") -> int:
    """Print each line at once and return the number of lines; `color` is "auto", "always" or "never"."""
    is_wanted = wants_colour(color)
    count = 0
    for line in lines:
        safe = printable_line(line)
        print("".join(_coloured(*span) for span in coloured_spans(safe)) if is_wanted else safe)
        count += 1
    return count


def tell(text: str) -> None:
    """Print a step. Answers go to stdout, steps and the output of pytest to stderr."""
    print(f"fxgraph: {printable_line(text)}", file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """Print records, mappings and sequences as one JSON value in ASCII, so that no terminal obeys a character."""
    print(json.dumps(plain_data(value), indent=1))


def plain_data(value: object) -> Any:
    """Return records as dicts from field to value, at any depth."""
    if is_dataclass(value):
        return {field.name: plain_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain_data(each) for key, each in value.items()}
    return [plain_data(each) for each in value] if isinstance(value, (list, tuple)) else value


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{_COLOUR_CODES[style]}m{text}\x1b[0m" if style else text


def wants_colour(color: str) -> bool:
    """Decide as pytest does: by the option, then NO_COLOR, then FORCE_COLOR, then by the kind of stdout."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
