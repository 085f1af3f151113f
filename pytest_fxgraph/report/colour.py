"""Which parts of the lines in which people read goldens and differences are coloured, and how.

Lines are made, sent and stored without colour; they get it where they are shown, if at all.
"""

from __future__ import annotations

import re

# A text and its style: one of pytest's words for it, or empty.
Span = tuple[str, str]

# The first that matches says how a line is coloured.
_LINES = (
    (re.compile(r"  - "), "red"),
    (re.compile(r"  \+ "), "green"),
    (re.compile(r"  > "), "bold"),
    (re.compile(r"\w+ \(\d+\)\Z|modules\Z|state\Z|notes\Z|== |expected "), "bold"),
    (re.compile(r" *block x\d+(?::|\Z)"), "cyan"),
    (re.compile(r" *(?:in|end of) \S+\Z|around |    +(?:in |same change at )"), "light"),
)
# From what to what, in the line that says what changed; arrows within quotes are none.
_TRANSITION = re.compile(
    r"(.*?(?::|\bmoved:) (?:[\w.\[\]]+ )?)([^\"]+|\"[^\"]*\") -> (.+?)((?: \(and at [^)]*\))?(?:, and \d+ more)?)\Z"
)
_VALUE = re.compile(r"(.*?)(  # [^\"]*)\Z")


def coloured_spans(line: str) -> list[Span]:
    """Split a line into its differently coloured parts; the style is "", "bold", "light", "red", "green" or "cyan"."""
    for pattern, style in _LINES:
        if pattern.match(line):
            return [(line, style)]
    if change := _TRANSITION.match(line):
        return [(change[1], ""), (change[2], "red"), (" -> ", ""), (change[3], "green"), (change[4], "")]
    if value := _VALUE.match(line):
        return [(value[1], ""), (value[2], "light")]
    return [(line, "")]
