"""Texts from elsewhere as HTML and JSON that no browser takes for markup."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from pytest_fxgraph.report.printable import printable, printable_line


def quoted(text: str) -> str:
    """Return a text as the content of an element or attribute, in one line."""
    return escape(printable_line(text))


def preformatted(text: str) -> str:
    """Return a text of several lines as an element."""
    return f"<pre>{escape(printable(text))}</pre>"


def script_data(data: Any) -> str:
    """Return an element with data that no browser takes for the end of the script around it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" class="data">{text}</script>'
