"""Texts that come from files and graphs, made harmless for a terminal."""

from __future__ import annotations

import re

# Escape sequences move the cursor, recolour the screen or worse; marks of direction make a text read as another.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return a text with control characters as escapes, such as `\\x1b`; line ends and tabs stay."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
