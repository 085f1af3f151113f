"""The difference of two graphs that Python code gets: as text, as a page, and in a notebook."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass, field, fields
from pathlib import Path

from pytest_fxgraph.compare import difference as compared
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.goldens.store import write_whole
from pytest_fxgraph.report.change_data import edit_data
from pytest_fxgraph.report.text import full_section, headline


@dataclass(frozen=True)
class Difference(compared.Difference):
    """The outcome of comparing two graphs at a level, with the graphs."""

    documents: tuple[GraphDocument, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def between(cls, difference: compared.Difference, expected: GraphDocument, obtained: GraphDocument) -> Difference:
        """Return a difference together with its graphs."""
        given = {each.name: getattr(difference, each.name) for each in fields(difference)}
        return cls(**given, documents=(expected, obtained))

    def text(self) -> str:
        """Return the difference in words, as the report section of a golden: the edits, the rest, and the diff."""
        if self.is_empty:
            return f"the graphs are equal at level {self.level}"
        expected, obtained = self.documents
        return full_section(self, expected, obtained, golden="")

    def __str__(self) -> str:
        return self.text()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the difference as a page with pictures. Raises ReportError if the file cannot be written."""
        write_whole(Path(path), self._page(), "page")

    def _repr_html_(self) -> str:
        # A frame keeps the styles and scripts of the page apart from the notebook.
        page = html.escape(self._page(), quote=True)
        return f'<iframe sandbox="allow-scripts" style="width:100%;height:40em;border:0" srcdoc="{page}"></iframe>'

    def _page(self) -> str:
        from pytest_fxgraph.draw.page import Entry, PageContent, PageGraph, page_text  # few differences become pages

        words = self.text()
        expected, obtained = self.documents
        entry = Entry(edits=edit_data(self))
        graph = PageGraph("difference", "mismatch", headline(self), words, expected, obtained, entry=entry)
        return page_text(PageContent(words.partition("\n")[0]), [graph])
