"""Progress is shown at a terminal alone, and leaves nothing behind."""

from __future__ import annotations

import io
from itertools import count

import pytest

from pytest_fxgraph.report.progress import shows_progress, tracked


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nobody_builds(monkeypatch):
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("stream", "environ", "is_shown"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"CI": "true"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (None, {}, False),
    ],
    ids=["terminal", "build", "dumb", "file", "nothing"],
)
def test_it_is_shown_where_somebody_sits(stream, environ, is_shown):
    assert shows_progress(stream, environ) is is_shown


def test_items_are_counted_after_a_while_and_the_line_is_erased():
    terminal, seconds = Terminal(), count(0, 0.2)

    assert [*tracked("abcdef", "compared", terminal, lambda: next(seconds))] == [*"abcdef"]

    shown = terminal.getvalue()
    assert not shown.startswith("0 of 6")
    assert "4 of 6 compared\x1b[K\r" in shown
    assert shown.endswith("\r\x1b[K")


def test_the_line_comes_at_the_very_second_and_not_before(monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.report.progress._SECONDS_BEFORE", 1.0)
    monkeypatch.setattr("pytest_fxgraph.report.progress._SECONDS_BETWEEN", 0.5)
    for after, told in ((0.5, []), (1.0, ["1 of 2 compared"])):
        terminal, times = Terminal(), iter([0.0, 0.0, after, after])
        assert [*tracked("ab", "compared", terminal, lambda times=times: next(times))] == [*"ab"]
        assert [line.partition("\x1b")[0] for line in terminal.getvalue().split("\r") if "of" in line] == told


def test_short_work_shows_nothing():
    terminal = Terminal()

    assert [*tracked("abc", "compared", terminal, lambda: 0.0)] == [*"abc"]
    assert terminal.getvalue() == ""


def test_a_file_gets_nothing_however_long_it_takes():
    file, seconds = io.StringIO(), count(0, 10)

    assert [*tracked("abc", "compared", file, lambda: next(seconds))] == [*"abc"]
    assert file.getvalue() == ""


def test_the_line_is_erased_when_the_work_breaks_off():
    terminal, seconds = Terminal(), count(0, 1)
    items = tracked("abc", "compared", terminal, lambda: next(seconds))
    next(items)
    next(items)

    items.close()

    assert terminal.getvalue().endswith("\r\x1b[K")
