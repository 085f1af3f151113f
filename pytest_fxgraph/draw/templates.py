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
STYLES = ("picture.css", "page.css")
SCRIPTS = ("placement.js", "picture.js", "page.js")


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
        from markupsafe import Markup, escape
    except ImportError:
        raise ReportError("cannot write a page: the library Jinja2 is not installed; pip install Jinja2") from None

    def visible(value: object) -> object:
        """Make control characters of a text visible. Markup, which a filter or macro made, stays."""
        return printable_line(value) if type(value) is str else value

    def data(value: Any) -> str:
        """Return data as JSON that no browser takes for the end of the script around the data."""
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible,
    )
    # Texts of several lines with visible control characters, data of a script, and styles or scripts of this folder.
    made.filters.update(lines=lambda text: escape(printable(text)), data=data, digest=_digest)
    made.globals.update(style=lambda: Markup(_style()), script=lambda: Markup(_script()))
    return made


def _digest(text: str) -> str:
    """Return the digest by which a browser knows the script or the style that the page allows."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@functools.cache
def _script() -> str:
    """Return the one script of a page."""
    return "".join([_text_of(name) for name in SCRIPTS])


@functools.cache
def _style() -> str:
    """Return the one style sheet of a page, with a class per width, because the page allows no style of an element."""
    return "".join([*map(_text_of, STYLES), *(f".w{width}{{width:{width}%}}" for width in range(101))])


def _text_of(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
