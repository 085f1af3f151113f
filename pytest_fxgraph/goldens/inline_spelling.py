"""How values are spelt in inline goldens: other spacing, quotes and forms of numbers are read as the document has them.

The document's own texts (`document/literals`) stay as they are, to the letter.
"""

from __future__ import annotations

import ast
import re

from pytest_fxgraph.document.literals import QUOTED, bytes_text, float_text, string_text
from pytest_fxgraph.document.yaml_reader import YamlDataError

_SINGLE = r"'(?:[^'\\]|\\.)*'"
_NUMBER = r"(?<![\w.%])-?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])"
_TOKEN = re.compile(
    rf"(?P<quoted>(?<!\w)[bB]?(?:{QUOTED}|{_SINGLE}))|(?P<number>{_NUMBER})|(?P<blank>\s+)|[\[\](){{}},:;=]|."
)
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def split_at(text: str, separator: str, number: int) -> list[str]:
    """Split a text at a character where it stands outside of quotes and brackets.

    Raises YamlDataError, for line `number`, if brackets do not match or a quoted text does not end.
    """
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _CLOSING:
            opened.append(_CLOSING[mark])
        elif mark in "])}":
            if not opened or opened.pop() != mark:
                raise YamlDataError(f"the bracket {mark!r} closes nothing", number)
        elif mark == '"':
            raise YamlDataError("a quoted text does not end", number)
        elif mark == separator and not opened:
            parts.append(text[start : token.start()])
            start = token.end()
    if opened:
        raise YamlDataError(f"a bracket is not closed: {opened[-1]!r} is missing", number)
    return [*parts, text[start:]]


def tidy_text(text: str, number: int) -> str:
    """Return a value as documents spell it: one blank behind a comma, double quotes, numbers as Python prints them."""
    out: list[str] = []
    commas: list[int] = []  # of each open bracket
    stripped = text.strip()
    if not stripped:
        raise YamlDataError("a value is missing", number)
    for token in _TOKEN.finditer(stripped):
        mark = token[0]
        if token["quoted"]:
            out.append(_quoted(mark, number))
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
    if re.search(r"[.eE]", text):
        return float_text(float(text))
    return text.replace("_", "")


def _quoted(text: str, number: int) -> str:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise YamlDataError(f"{text[:60]} is no quoted text of Python", number) from None
    return bytes_text(value) if isinstance(value, bytes) else string_text(value)


def plain_text(text: str, number: int) -> str:
    """Return what a quoted text means; any other text as it is."""
    if not text.startswith('"'):
        return text
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    if not isinstance(value, str):
        raise YamlDataError(f"{text[:60]} is no quoted text of Python", number)
    return value
