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
    """Return a text as code within a line, cut in the middle if it is very long."""
    line = clipped(printable_line(text), _LONGEST_SPAN).strip()
    if not line:
        return ""
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
    """Return the lines of a table; cells are Markdown on one line, in which pipes may stand within code."""
    head = [*head]
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    # Cells are told apart before anything else is read, also within code.
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
