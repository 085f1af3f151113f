"""The templates of pages. Jinja2 escapes every text, after control characters have been made visible."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.report.printable import printable, printable_line

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent


def page_from(**values: object) -> str:
    """Return the page of `page.html`. Raises ReportError without Jinja2."""
    return _environment().get_template("page.html").render(values)


def panel(name: str, *values: object) -> str:
    """Return the part of a page that a macro of `panels.html` makes. Raises ReportError without Jinja2."""
    macro: Callable[..., str] = getattr(_environment().get_template("panels.html").module, name)
    return macro(*values)


@functools.cache
def _environment() -> Environment:
    try:
        import jinja2  # on first use: no test that passes writes a page
    except ImportError:
        raise ReportError("cannot write a page: the library Jinja2 is not installed; pip install Jinja2") from None
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
    )
    made.filters.update(lines=_lines, data=_data, digest=_digest)
    made.globals.update(file=_file, script=_script)
    return made


def _visible(value: object) -> object:
    """Make control characters of a text visible. Markup, which a filter or macro made, stays."""
    return printable_line(value) if type(value) is str else value


def _lines(text: str) -> str:
    """Return a text of several lines with visible control characters, escaped."""
    from markupsafe import escape

    return escape(printable(text))


def _data(value: Any) -> str:
    """Return data as JSON that no browser takes for the end of the script around the data."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _digest(script: str) -> str:
    """Return the digest of a script by which a browser knows the script that the page allows."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


@functools.cache
def _script() -> str:
    """Return the one script of a page."""
    return _file("placement.js") + _file("picture.js") + _file("page.js")


def _file(name: str) -> str:
    """Return a style or script of this folder."""
    from markupsafe import Markup

    return Markup((HERE / name).read_text(encoding="utf-8"))
