"""Progress of a test that compares many goldens, shown where pytest stands still meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest

from pytest_fxgraph.report.progress import StatusText, shows_progress

_SECONDS_BEFORE, _SECONDS_BETWEEN = 2.0, 0.2

GOLDEN_PROGRESS = pytest.StashKey["GoldenProgress"]()  # in the stash of a run's config, where somebody may look at it


def enable_progress(config: pytest.Config, stream: TextIO | None = sys.__stdout__) -> None:
    """Show progress from now on, if pytest writes to a terminal, was not asked to be quiet, and shows captured output.

    With -s, what tests print would stand in between.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    is_quiet = config.get_verbosity() < 0 or config.getoption("no_header", False)
    if stream is None or reporter is None or capture is None or is_quiet or config.getoption("capture", "no") == "no":
        return
    if reporter.isatty and shows_progress(stream):
        progress = config.stash[GOLDEN_PROGRESS] = GoldenProgress(reporter, capture, stream)
        config.pluginmanager.register(progress, "fxgraph-progress")


class GoldenProgress:
    """Counts the goldens of the test that runs, behind what pytest has written of it."""

    def __init__(
        self, reporter: Any, capture: Any, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reporter, self._capture, self._clock = reporter, capture, clock
        self._text = StatusText(stream)
        self._began = self._told_at = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin anew."""
        self._began = self._told_at = self._clock()

    @pytest.hookimpl(tryfirst=True)  # before pytest writes there
    def pytest_runtest_logreport(self) -> None:
        """Remove the text."""
        self._text.erase()

    def tell(self, count: int) -> None:
        """Tell how many goldens the test has compared, if it takes long, and not too often."""
        now = self._clock()
        if not count or now - self._began < _SECONDS_BEFORE or now - self._told_at < _SECONDS_BETWEEN:
            return
        self._told_at = now
        self._show(f" {count} goldens compared, {now - self._began:.0f} s")

    @contextmanager
    def told(self, text: str) -> Iterator[None]:
        """Tell on a line of its own what is done meanwhile."""
        self._reporter.ensure_newline()
        self._show(text)
        try:
            yield
        finally:
            self._text.erase()

    def _show(self, text: str) -> None:
        writer = self._reporter._tw
        with self._capture.global_and_fixture_disabled():
            self._text.show(text, int(writer.fullwidth) - int(writer.width_of_current_line) - 1)
