"""The text of an inline golden: the lines that a golden file holds, without the head of the file.

input x  # float32[2, 4]
%linear = self.linear(%x)  # float32[2, 5]
return %linear
modules:
  linear: torch.nn.Linear(in_features=4, out_features=5, bias=True)
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from pytest_fxgraph.document.model import GraphDocument, YamlDataError
from pytest_fxgraph.document.text_reader import read_document
from pytest_fxgraph.document.text_writer import document_lines
from pytest_fxgraph.errors import GoldenFormatError

OR_WRITE = ", or have the text written anew by pytest --fx-update-golden"


def write_inline(document: GraphDocument) -> str:
    """Write a document as the text of an inline golden, without indentation; every line ends with a line feed.

    Code is there at level `exact` alone, which compares names too, so a document with code is written without blocks.
    """
    return "".join(f"{line}\n" for line in document_lines(document, folds=not document.code))


def dedented(text: str) -> str:
    """Return the text of a literal without the indentation of its code, blank lines around it and blanks at line ends.

    The first line, which begins behind the quotes, has no indentation of its own.
    """
    first, _, rest = text.partition("\n")
    below = textwrap.dedent("\n".join(line.rstrip() for line in rest.split("\n")))
    lines = f"{first.strip()}\n{below}".strip("\n")
    return f"{lines}\n" if lines else ""


def read_inline(text: str, origin: str, first_line: Callable[[], int | None] = lambda: None) -> GraphDocument:
    """Read the text of an inline golden, which `dedented` gave or a person wrote; `origin` names it in errors.

    In case of an error, `first_line` is asked for the line of the file in which the text begins. Raises
    GoldenFormatError with the line and the reason.
    """
    lines = text.split("\n")
    try:
        return read_document(list(enumerate(lines, 1)))
    except YamlDataError as error:
        line = error.line or 1
        begin = first_line()
        shown = origin if begin is None else f"{origin.rpartition(':')[0]}:{begin + line - 1}"
        place = f"line {line} of the text, {lines[line - 1].strip()[:80]!r}"
        raise GoldenFormatError(
            f"cannot read the inline golden {shown}, {place}: {error.reason}; mend the line{OR_WRITE}"
        ) from None
