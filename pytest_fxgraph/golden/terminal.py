"""How report sections of ours look on the terminal: in colour where pytest uses colour, and always there.

Reports keep the plain text, which is what other plugins, files and processes get; it is dressed up for as long as
pytest prints its summary.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

OURS = ("fx golden ", "fx equivalence")


class SectionDisplay:
    """Dresses sections up. Lives in the process that has the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, object, object]:
        """Dress up what pytest is about to print, and put it back afterwards."""
        dressed: list[tuple[Any, list[tuple[str, str]], int]] = []
        for report in _failed(terminalreporter):
            sections = list(report.sections)
            if any(name.startswith(OURS) for name, _ in sections):
                report.sections = [(name, self._dressed(name, content)) for name, content in sections]
                dressed.append((report, sections, self._show_what_is_hidden(report)))
        try:
            return (yield)
        finally:
            for report, sections, added in dressed:
                report.sections = sections
                if added:
                    del report.longrepr.sections[-added:]

    def _dressed(self, name: str, content: str) -> str:
        if not (name.startswith(OURS) and self._config.get_terminal_writer().hasmarkup):
            return content
        from pytest_fxgraph.report.colour import coloured_text  # here: most runs have nothing to colour

        return coloured_text(content)

    def _show_what_is_hidden(self, report: Any) -> int:
        """Have sections that --show-capture leaves out printed with the error: they are no captured output."""
        shown = str(self._config.getoption("showcapture", "all"))
        if shown == "all" or not hasattr(report.longrepr, "addsection"):
            return 0
        hidden = [section for section in report.sections if section[0].startswith(OURS) and shown not in section[0]]
        for name, content in hidden:
            report.longrepr.addsection(name, content)
        return len(hidden)


def _failed(terminalreporter: Any) -> Iterator[Any]:
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, ()):
            if isinstance(getattr(report, "sections", None), list):
                yield report
