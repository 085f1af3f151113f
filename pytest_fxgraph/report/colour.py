"""Colour for the lines in which people read goldens and differences.

Lines are made without colour, travel and are stored without, and get it where they are shown, if at all.
"""

from __future__ import annotations

import re

_RESET = "\x1b[0m"
_BOLD, _FAINT, _RED, _GREEN, _CYAN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 36))
# The first that matches says how a line is coloured.
_LINES = (
    (re.compile(r"  - "), _RED),
    (re.compile(r"  \+ "), _GREEN),
    (re.compile(r"  > "), _BOLD),
    (re.compile(r"\w+ \(\d+\)\Z|modules\Z|state\Z|notes\Z|== |expected "), _BOLD),
    (re.compile(r" *block x\d+(?::|\Z)"), _CYAN),
    (re.compile(r" *in \S+\Z|around |    +(?:in |same change at )"), _FAINT),
)
# From what to what, in the line that says what changed; arrows within quotes are none.
_TRANSITION = re.compile(
    r"(.*?(?::|\bmoved:) (?:[\w.\[\]]+ )?)([^\"]+|\"[^\"]*\") -> (.+?)((?: \(and at [^)]*\))?(?:, and \d+ more)?)\Z"
)
_VALUE = re.compile(r"(.*?)(  # [^\"]*)\Z")


def coloured(line: str) -> str:
    """Colour one line by what it is."""
    for pattern, colour in _LINES:
        if pattern.match(line):
            return f"{colour}{line}{_RESET}"
    if change := _TRANSITION.match(line):
        return f"{change[1]}{_RED}{change[2]}{_RESET} -> {_GREEN}{change[3]}{_RESET}{change[4]}"
    if value := _VALUE.match(line):
        return f"{value[1]}{_FAINT}{value[2]}{_RESET}"
    return line


def coloured_text(text: str) -> str:
    """Colour a text line by line."""
    return "\n".join(map(coloured, text.split("\n")))
