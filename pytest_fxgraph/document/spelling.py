"""Spelling of a golden's texts: other spacing, quotes and forms of numbers are read as the document has them.

The document's own texts (`document/literals`) are written unchanged. A text that would not be read back unchanged is
written in quotes behind a tilde: `~"any text"`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from typing import Any

from pytest_fxgraph.document.literals import QUOTED, bytes_text, float_text, string_text
from pytest_fxgraph.document.model import YamlDataError

_SINGLE = r"'(?:[^'\\]|\\.)*'"
_NUMBER = r"(?<![\w.%])-?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])"
_TOKEN = re.compile(
    rf"(?P<quoted>(?<!\w)[bB]?(?:{QUOTED}|{_SINGLE}))|(?P<number>{_NUMBER})|(?P<blank>\s+)|[\[\](){{}},:;=]|."
)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_SIMPLE = re.compile(r"(?:%\w+|-?\d{1,4300}|[A-Za-z_][\w.]*)\Z", re.ASCII)
# Texts of tensors, sizes and strings, which need no second reading: that takes ten times as long.
_PLAIN = re.compile(
    r"(?:%\w+|-?\d{1,4300}|[A-Za-z_][\w.]*(?:\[(?:\d+(?:, \d+)*)?\])?|\(\d+(?:, \d+)+\)|\"[\w.]*\")\Z", re.ASCII
)
_NAME = re.compile(r"\w+\Z")
_QUOTED = re.compile(QUOTED, re.DOTALL)
# Text that a literal block can hold, less the characters that editors and hooks change or that nobody can see: tabs,
# blanks at the ends of lines, odd spaces, marks of direction, private and unassigned areas.
_SEEN = r"!-~\u00a1-\u00ac\u00ae-\u1fff\u2070-\u2fff\u3001-\ud7ff"
_LOST_IN_A_BLOCK = re.compile(rf"[^\n {_SEEN}]|\A[ \n]| (?:\n|\Z)|\n\Z")
KEYWORD = re.compile(rf"(\w+|{QUOTED}) *=(?!=)", re.DOTALL)
_FACT_WORD = re.compile(r"(?:in|is|effects|meta|named by|storage|training|not|no grad|requires grad|~|#)\b|[~#\"]")
_MOST_REMEMBERED = 16_384


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def argument_text(text: str) -> str:
    """Spell an argument, so that it can stand between commas."""
    if _PLAIN.match(text):
        return text
    # Behind the `=` of a keyword, a second one would be taken for a comparison.
    is_argument = not text.startswith("=") and not KEYWORD.match(text)
    return text if is_argument and _is_exact(text, ",;#") else raw_text(text)


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def fact_text(text: str) -> str:
    """Spell a fact, so that it can stand between semicolons: a value, an effect or a path."""
    if _PLAIN.match(text) and not _FACT_WORD.match(text):
        return text
    return text if _is_exact(text, ";#") and not _FACT_WORD.match(text) else raw_text(text)


def raw_text(text: str) -> str:
    """Quote a text that no other spelling can hold."""
    return f"~{string_text(text)}"


def _is_exact(text: str, separators: str) -> bool:
    """Return whether a text comes back unchanged from between two separators."""
    # A single quote could open a text that ends in another argument.
    if text.startswith("~") or ("'" in text and "'" in _QUOTED.sub("", text)):
        return False
    try:
        return all(split_at(text, each) == [text] for each in separators) and tidy_text(text) == text
    except YamlDataError:
        return False


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def key_text(name: str) -> str:
    """Spell a keyword."""
    return name if _NAME.match(name) else string_text(name)


def is_seen_line(line: str) -> bool:
    """Return whether a text can stand on a line: no editor or hook would change it, and all of it is seen."""
    return bool(line) and "\n" not in line and fits_in_a_block(line)


def fits_in_a_block(text: str) -> bool:
    """Return whether a text can stand in a literal block: no editor or hook would change it, and all of it is seen."""
    if text.isascii():  # the ordinary case: the same question, asked at the speed of C
        is_seen = text.replace("\n", "").isprintable()
        return is_seen and " \n" not in text and text[0] not in " \n" and text[-1] not in " \n"
    return not _LOST_IN_A_BLOCK.search(text)


def split_at(text: str, separator: str) -> list[str]:
    """Split a text at a character where it stands outside of quotes and brackets.

    Raises YamlDataError if brackets do not match or a quoted text does not end.
    """
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    for token in _marks(separator).finditer(text):
        mark = token[0]
        if mark in _CLOSING:
            opened.append(_CLOSING[mark])
        elif mark in "])}":
            if not opened or opened.pop() != mark:
                raise YamlDataError(f"the bracket {mark!r} closes nothing")
        elif mark == '"':
            raise YamlDataError("a quoted text does not end")
        elif mark == separator and not opened:
            parts.append(text[start : token.start()])
            start = token.end()
    if opened:
        raise YamlDataError(f"a bracket is not closed: {opened[-1]!r} is missing")
    return [*parts, text[start:]]


@functools.lru_cache
def _marks(separator: str) -> re.Pattern[str]:
    """Find quoted texts, brackets and a separator; a pattern of all tokens takes four times as long."""
    return re.compile(rf"(?<!\w)[bB]?(?:{QUOTED}|{_SINGLE})|[\[\](){{}}\"{separator}]")


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def tidy_text(text: str) -> str:
    """Return a value as documents spell it: one blank behind a comma, double quotes, numbers as Python prints them."""
    out: list[str] = []
    commas: list[int] = []  # of each open bracket
    stripped = text.strip()
    if _SIMPLE.match(stripped):
        return stripped
    if stripped.startswith('~"'):
        return plain_text(stripped[1:])
    if not stripped:
        raise YamlDataError("a value is missing")
    for token in _TOKEN.finditer(stripped):
        mark = token[0]
        if token["quoted"]:
            out.append(_quoted(mark))
        elif token["number"]:
            out.append(_number(mark))
        elif token["blank"]:
            if out and out[-1] not in ("[", "(", "{", ", "):
                out.append(" ")
        elif mark in _CLOSING:
            commas.append(0)
            out.append(mark)
        elif mark in "])}":
            _close(out, mark, commas.pop() if commas else 0)
        elif mark == ",":
            _drop_blank(out)
            out.append(", ")
            if commas:
                commas[-1] += 1
        else:
            out.append(mark)
    return "".join(out).strip()


def _close(out: list[str], mark: str, commas: int) -> None:
    _drop_blank(out)
    if out and out[-1] == ", ":
        out[-1] = "," if mark == ")" and commas == 1 else ""
    out.append(mark)


def _drop_blank(out: list[str]) -> None:
    if out and out[-1] == " ":
        out.pop()


def _number(text: str) -> str:
    return float_text(float(text)) if re.search(r"[.eE]", text) else text.replace("_", "")


def _quoted(text: str) -> str:
    value = _literal(text, (str, bytes))
    return bytes_text(value) if isinstance(value, bytes) else string_text(value)


def plain_text(text: str) -> str:
    """Return what a quoted text means; any other text as it is."""
    return str(_literal(text, str)) if text.startswith('"') else text


def _literal(text: str, kinds: type | tuple[type, ...]) -> Any:
    with contextlib.suppress(SyntaxError, ValueError):
        value = ast.literal_eval(text)
        if isinstance(value, kinds):
            return value
    raise YamlDataError(f"{text[:60]} is no quoted text of Python")
