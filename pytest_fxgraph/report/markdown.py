"""Texts that come from models, written into Markdown so that nothing in them is markup.

Names, docstrings and code of a model may hold anything. Here they become code spans, fenced blocks or escaped HTML, in
which neither Markdown, HTML nor GitHub's mentions, links and formulas are looked for.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.printable import printable, printable_line

_LONGEST_SPAN = 300


def code_span(text: str) -> str:
    """Return a text as code within a line or a cell of a table, cut in the middle if it is very long."""
    line = clipped(printable_line(text), _LONGEST_SPAN).strip()
    if not line:
        return ""
    if "|" in line:
        # It would end the cell; how backslashes before it are read differs between implementations.
        return f"<code>{''.join(map(_entity, line))}</code>"
    fence = "`" * (1 + _longest_run(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def code_block(text: str, language: str = "text") -> list[str]:
    """Return a text as the lines of a fenced block, which no line of it can end."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return [f"{fence}{language}", *printable(text).split("\n"), fence]


def html_code(text: str) -> str:
    """Return a text as code within a line of HTML, such as a summary."""
    return f"<code>{html.escape(clipped(printable_line(text), _LONGEST_SPAN))}</code>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table; cells are Markdown without pipes."""
    head = [*head]
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _entity(character: str) -> str:
    return character if character.isalnum() or character == " " else f"&#{ord(character)};"
