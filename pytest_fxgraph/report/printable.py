"""Texts that come from files and graphs, made harmless for a terminal and for the log of a build."""

from __future__ import annotations

import re

# Patterns are compiled when they are first used: the plugin imports this in every run.
# Escape sequences move the cursor, recolour the screen or worse; marks of direction make a text read as another.
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
# GitHub Actions obeys lines that begin with `::`, and what follows `##[` anywhere.
_COMMANDS = r"(?m)^(?P<indent>[ \t]*):(?=:)|#(?=#\[)"


def printable(text: str) -> str:
    """Return a text with control characters as escapes, such as `\\x1b`; line ends and tabs stay.

    What a build's log would take for a command is escaped, too: `::error` at the beginning of a line.
    """
    safe = re.sub(_UNPRINTABLE, _escape, text)
    return re.sub(_COMMANDS, _escape_command, safe) if "::" in safe or "##[" in safe else safe


def printable_line(text: str) -> str:
    """Return a text on one line, its line ends escaped as well: the name of a file may hold any character."""
    return printable(text.replace("\n", "\\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escape_command(found: re.Match[str]) -> str:
    return "\\x23" if found["indent"] is None else rf"{found['indent']}\x3a"
