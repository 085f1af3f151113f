"""The coloured parts of lines that show goldens and differences.

Lines are made, sent and stored without colour. The terminal that shows a line adds the colour.
"""

from __future__ import annotations

import re

# A text and its style: one of pytest's words for the style, or empty.
Span = tuple[str, str]

# The first pattern that matches decides the colour of a line.
_LINES = (
    (re.compile(r"  - "), "red"),
    (re.compile(r"  \+ "), "green"),
    (re.compile(r"  > "), "bold"),
    (re.compile(r"\w+ \(\d+\)\Z|modules\Z|state\Z|notes\Z|== |expected "), "bold"),
    (re.compile(r" *block x\d+(?::|\Z)"), "cyan"),
    (re.compile(r" *(?:in|end of) \S+\Z|around |    +(?:in |same change at )"), "light"),
)
# Old and new value in a line about a change. Arrows within quotes do not count.
_TRANSITION = re.compile(
    r"(.*?(?::|\bmoved:) (?:[\w.\[\]]+ )?)([^\"]+|\"[^\"]*\") -> (.+?)((?: \(and at [^)]*\))?(?:, and \d+ more)?)\Z"
)
# Both sides of an edit: `stem: 2 operators (neg, add) -> sub at 4 places`.
_SIDE = r"\d+ operators \([^)]*\)|\"[^\"]*\"|\([^)]*\)|\w[\w.]*\[[^\]]*\]|\S+?"
_EDIT = re.compile(rf"((?:.*? )?)({_SIDE}) -> ({_SIDE})((?::|,? at |,? and | \().*)?\Z")
_VALUE = re.compile(r"(.*?)(  # [^\"]*)\Z")


def coloured_spans(line: str) -> list[Span]:
    """Split a line into its differently coloured parts; the style is "", "bold", "light", "red", "green" or "cyan"."""
    for pattern, style in _LINES:
        if pattern.match(line):
            return [(line, style)]
    if change := _TRANSITION.match(line) or _EDIT.match(line):
        return [(change[1], ""), (change[2], "red"), (" -> ", ""), (change[3], "green"), (change[4] or "", "")]
    if value := _VALUE.match(line):
        return [(value[1], ""), (value[2], "light")]
    return [(line, "")]
