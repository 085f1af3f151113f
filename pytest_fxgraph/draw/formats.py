"""The endings of picture files, and the text of a file for each ending."""

from __future__ import annotations

from pathlib import Path

from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.dot import dot_text
from pytest_fxgraph.draw.mermaid import MOST_CHARACTERS, MOST_EDGES, mermaid_for_github, mermaid_text
from pytest_fxgraph.draw.page import page_of_picture
from pytest_fxgraph.draw.svg import svg_text
from pytest_fxgraph.errors import ReportError

ENDINGS = (".svg", ".html", ".mmd", ".dot")
MOST_SEEN = 150  # boxes of a picture that is not shown in full
_STEPS = (150, 100, 60, 30, 15)


def ending_of(path: str) -> str:
    """Return the ending of a picture's path. Raises ReportError for an unknown ending."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ReportError(f"cannot draw to {path}: a picture's name ends in {', '.join(ENDINGS)}; choose one of these")
    return ending


def drawn_text(document: GraphDocument, path: str, *, title: str, is_full: bool = False) -> str:
    """Return the text of a picture file of a graph. The ending of the path selects the format.

    With `is_full`, nothing is folded. Raises ReportError for an unknown ending.
    """
    ending = ending_of(path)
    picture = picture_of(document, title=title)
    if ending == ".html":
        return page_of_picture(picture, document, is_full=is_full)
    opened = picture.all_opened() if is_full else picture.opened(MOST_SEEN)
    if ending == ".svg":
        return svg_text(picture, opened)
    if ending == ".dot":
        return dot_text(picture, opened)
    found = mermaid_text(picture, opened) if is_full else mermaid_for_github(picture, _STEPS)
    if found is not None:
        return found
    limits = f"{MOST_CHARACTERS} characters and {MOST_EDGES} edges"
    smallest = mermaid_text(picture, picture.opened(_STEPS[-1]))
    return f"%% GitHub does not draw this: it is beyond {limits}, folded as it is\n{smallest}"
