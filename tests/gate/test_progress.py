"""A test that compares many goldens says how many on a terminal."""

from __future__ import annotations

import io
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.progress import GOLDEN_PROGRESS, GoldenProgress, enable_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Writer:
    fullwidth, width_of_current_line = 80, 20


class Reporter:
    _tw, isatty = Writer(), True

    def __init__(self) -> None:
        self.lines = 0

    def ensure_newline(self) -> None:
        self.lines += 1


CAPTURE = SimpleNamespace(global_and_fixture_disabled=nullcontext)


@pytest.fixture
def progress():
    """What shows progress, with its terminal, at a time that tests set."""
    terminal, time = Terminal(), SimpleNamespace(now=0.0)
    progress = GoldenProgress(Reporter(), CAPTURE, terminal, lambda: time.now)
    progress.pytest_runtest_setup()
    return progress, terminal, time


def test_after_a_while_goldens_are_counted_behind_what_pytest_wrote(progress):
    progress, terminal, time = progress
    for time.now, count in ((1.0, 3), (2.3, 0), (2.5, 8), (2.6, 9)):
        progress.tell(count)

    assert terminal.getvalue() == "\x1b[K 8 goldens compared, 2 s\x1b[24D"


def test_the_text_is_gone_before_pytest_writes_again_and_the_next_test_begins_anew(progress):
    progress, terminal, time = progress
    time.now = 3.0
    progress.tell(8)

    progress.pytest_runtest_logreport()
    progress.pytest_runtest_setup()
    progress.tell(1)

    assert terminal.getvalue().endswith("\x1b[24D\x1b[K")


def test_a_report_that_is_written_has_a_line_of_its_own(progress):
    progress, terminal, _ = progress

    with progress.told("writing fx.html"):
        shown = terminal.getvalue()

    assert shown == "\x1b[Kwriting fx.html\x1b[15D"
    assert terminal.getvalue() == shown + "\x1b[K"
    assert progress._reporter.lines == 1


@pytest.mark.parametrize(
    ("options", "verbosity", "stream", "is_shown"),
    [
        ({}, 0, Terminal(), True),
        ({}, -1, Terminal(), False),
        ({"no_header": True}, 0, Terminal(), False),
        ({"capture": "no"}, 0, Terminal(), False),
        ({}, 0, io.StringIO(), False),
        ({}, 0, None, False),
    ],
    ids=["terminal", "quiet", "no header", "no capture", "file", "nothing"],
)
def test_it_obeys_the_quiet_modes(monkeypatch, options, verbosity, stream, is_shown):
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plugins = {"terminalreporter": Reporter(), "capturemanager": CAPTURE}
    given = {"capture": "fd", **options}
    config = SimpleNamespace(
        pluginmanager=SimpleNamespace(get_plugin=plugins.get, register=lambda plugin, name: None),
        getoption=lambda name, default=None: given.get(name, default),
        get_verbosity=lambda: verbosity,
        stash=pytest.Stash(),
    )

    enable_progress(config, stream)

    assert (GOLDEN_PROGRESS in config.stash) is is_shown
