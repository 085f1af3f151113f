"""Texts for people: made harmless for a terminal and for a build's log, counted, listed and put in columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Patterns are compiled on first use, because the plugin imports this file in every run.
# Escape sequences move the cursor or recolour the screen. Marks of direction let a text read as another text.
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
# GitHub Actions obeys lines that begin with `::`, and every `##[`.
_COMMANDS = r"(?m)^(?P<indent>[ \t]*):(?=:)|#(?=#\[)"


def printable(text: str) -> str:
    """Return a text with control characters as escapes, for example `\\x1b`. Line ends and tabs stay.

    Commands of a build's log are escaped too, for example `::error` at the beginning of a line.
    """
    # Most texts are plain; the pattern takes ten times as long, a tenth of a page.
    safe = text if text.isascii() and text.isprintable() else re.sub(_UNPRINTABLE, _escape, text)
    return re.sub(_COMMANDS, _escape_command, safe) if "::" in safe or "##[" in safe else safe


def printable_line(text: str) -> str:
    """Return a text in one line with escaped line ends, because the name of a file may hold any character."""
    return printable(text.replace("\n", "\\n"))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 golden", "2 goldens"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(texts: Iterable[str], most: int, separator: str = ", ") -> str:
    """Join the first texts and count the others: "a, b and 3 more"."""
    found = [*texts]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return separator.join(found[:most]) + more


def first_lines(lines: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """Return the first lines, and a line that counts the others."""
    return [*lines[:most], more.format(len(lines) - most)] if len(lines) > most else [*lines]


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Write rows in columns, the first to the left and the others to the right."""
    rows = [*rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escape_command(found: re.Match[str]) -> str:
    return "\\x23" if found["indent"] is None else rf"{found['indent']}\x3a"
