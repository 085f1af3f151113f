"""How our report sections look on the terminal: always shown, coloured as pytest colours.

Reports keep the plain text, because other plugins, files and processes read it. The text has colours only while pytest
prints its summary.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from pytest_fxgraph.gate.activation import outcomes_of_run

OURS = ("fx golden ", "fx equivalence")


class TerminalSections:
    """Prints our report sections in colour. Registered in the process that has the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shown: dict[str, str] = {}  # by cluster: the section that tells its cause

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, object, object]:
        """Colour our sections while pytest prints its summary, and put the plain ones back afterwards."""
        clusters = {
            (outcome.nodeid, outcome.section_name): outcome.cluster
            for outcome in outcomes_of_run(self._config)
            if outcome.cluster
        }
        shown = str(self._config.getoption("showcapture", "all"))
        changed: list[tuple[Any, list[tuple[str, str]], int]] = []
        for report in _failed(terminalreporter):
            sections = list(report.sections)
            if any(name.startswith(OURS) for name, _ in sections):
                told_once = [
                    (name, self._told_once(name, content, clusters.get((report.nodeid, name))))
                    for name, content in sections
                ]
                report.sections = [(name, self._coloured(name, content)) for name, content in told_once]
                # --show-capture leaves sections out of the output; ours are no captured output.
                added = 0 if shown == "all" else _add_to_error(report, lambda name: shown not in name)
                changed.append((report, sections, added))
        try:
            return (yield)
        finally:
            for report, sections, added in changed:
                report.sections = sections
                if added:
                    del report.longrepr.sections[-added:]

    def _told_once(self, name: str, content: str, cluster: str | None) -> str:
        """Return a section, or where it is if another golden has the same difference; with -vv, always the section."""
        if cluster is None or self._config.get_verbosity() > 1:
            return content
        first = self._shown.setdefault(cluster, name)
        if first == name:
            return content
        return f"the same difference as in {first.removeprefix(OURS[0])} (cluster {cluster}); -vv shows it in full"

    def _coloured(self, name: str, content: str) -> str:
        writer = self._config.get_terminal_writer()
        if not name.startswith(OURS) or not writer.hasmarkup:
            return content
        from pytest_fxgraph.report.colour import coloured_spans  # here: most runs have nothing to colour

        return "\n".join(
            "".join(writer.markup(text, **{style: True}) if style else text for text, style in coloured_spans(line))
            for line in content.split("\n")
        )


def show_before_debugger(report: pytest.TestReport) -> None:
    """Add our sections to the error. `--pdb` prints the error before its prompt, and no sections of the report."""
    _add_to_error(report, lambda name: True)


def _add_to_error(report: Any, is_wanted: Callable[[str], bool]) -> int:
    """Add our sections to the error, where the error takes sections; return their number."""
    if not hasattr(report.longrepr, "addsection"):
        return 0
    added = [section for section in report.sections if section[0].startswith(OURS) and is_wanted(section[0])]
    for name, content in added:
        report.longrepr.addsection(name, content)
    return len(added)


def _failed(terminalreporter: Any) -> Iterator[Any]:
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, ()):
            if isinstance(getattr(report, "sections", None), list):
                yield report
