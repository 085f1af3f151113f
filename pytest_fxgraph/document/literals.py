"""The texts in which a document keeps Python values: exact, ASCII, the same in every process and Python version.

`%name` refers to a node. A `%` that means anything else stands within double quotes, and a double quote starts or
ends a quoted text or is escaped by a backslash: that is all a reader has to know to find the references.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping

QUIET_NAN = 0x7FF8000000000000
SIGN_BIT = 1 << 63

QUOTED = r'"(?:[^"\\]|\\.)*"'
REFERENCE = re.compile(rf"{QUOTED}|%(\w+)", re.DOTALL)
_LONE_REFERENCE = re.compile(r"%(\w+)\Z")
_NEEDS_NO_ESCAPE = re.compile(r"[ !#-\[\]-~]*\Z")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def string_text(value: str) -> str:
    """Quote a string; everything that is not printable ASCII is escaped as Python would read it back."""
    text = value if _NEEDS_NO_ESCAPE.match(value) else "".join(map(escaped, value))
    return f'"{text}"'


def bytes_text(value: bytes) -> str:
    """Quote bytes."""
    return f'b"{"".join([escaped(chr(byte)) for byte in value])}"'


def int_text(value: int) -> str:
    """Write an integer; beyond what Python converts to decimal digits, in hexadecimal."""
    try:
        return int.__repr__(value)
    except ValueError:
        return hex(value)


def float_text(value: float) -> str:
    """Write a float so that every bit comes back: -0.0, the sign and the payload of NaN included."""
    return _nan_text(value) if math.isnan(value) else float.__repr__(value)


def complex_text(value: complex) -> str:
    """Write a complex number by its two parts, which Python's own form does not always keep."""
    return f"complex({float_text(value.real)}, {float_text(value.imag)})"


def references(text: str) -> list[str]:
    """List the names of the nodes that a text refers to, in order and with repetitions."""
    if "%" not in text:
        return []
    if lone := _LONE_REFERENCE.match(text):
        return [lone[1]]
    return [name for name in REFERENCE.findall(text) if name]


def rename_references(text: str, mapping: Mapping[str, str]) -> str:
    """Give a text with its references renamed; names that the mapping lacks stay."""
    if "%" not in text:
        return text
    if lone := _LONE_REFERENCE.match(text):
        return "%" + mapping.get(lone[1], lone[1])
    return REFERENCE.sub(lambda found: "%" + mapping.get(found[1], found[1]) if found[1] else found[0], text)


def without_references(text: str) -> str:
    """Give a text without the names that it refers to: each reference is a lone `%`."""
    return rename_references(text, dict.fromkeys(references(text), ""))


def escaped(character: str) -> str:
    """Return a character as it stands in a quoted text, for example `\\x1b`."""
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if 0x20 <= code < 0x7F:
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _nan_text(value: float) -> str:
    bits = int.from_bytes(struct.pack(">d", value), "big")
    sign = "-" if bits & SIGN_BIT else ""
    payload = bits & ~SIGN_BIT
    return f"{sign}nan" if payload == QUIET_NAN else f"{sign}nan(0x{payload:x})"
