"""Which frames and causes a failure shows; what it looks like is tested in tests/workflow/test_one_screen.py."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fxcore import symbolic_trace
from fxcore.errors import TraceError
from pytest_fxgraph import rewrite
from pytest_fxgraph.equivalence.preparation import checked_modes
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.gate import brief_failures
from pytest_fxgraph.gate.brief_failures import (
    LONGEST_SUMMARY,
    shorten_failure,
    summarize_failure,
    summary_line,
)
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.settings import LEVEL


def shortened(call) -> pytest.ExceptionInfo[BaseException]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    shorten_failure(caught)
    return caught


def files(excinfo: pytest.ExceptionInfo[BaseException]) -> list[str]:
    return [entry.path.name for entry in excinfo.traceback]


def branch(x):
    return x if x.sum() > 0 else -x


def test_an_error_of_ours_shows_neither_our_frames_nor_its_cause():
    excinfo = shortened(lambda: rewrite(branch, branch))

    assert set(files(excinfo)) == {"test_brief_failures.py"}
    assert excinfo.value.__cause__ is None
    assert excinfo.value.__suppress_context__


def test_an_error_of_fxcore_that_a_user_met_without_the_plugin_stays():
    excinfo = shortened(lambda: symbolic_trace(branch))

    assert "tracer.py" in files(excinfo)


def test_a_value_that_a_line_of_ours_refuses_is_an_error_of_ours():
    assert set(files(shortened(lambda: checked_modes("nope")))) == {"test_brief_failures.py"}


def test_a_fault_of_the_plugin_is_shown_in_full():
    assert files(shortened(lambda: type(LEVEL).read(3, None, "place")))[-1] == "settings.py"


def test_an_error_of_the_users_code_that_we_called_keeps_its_cause():
    def filters(*_):
        raise KeyError("mine") from SubjectError("cause")

    excinfo = shortened(lambda: rewrite(lambda x: -x, lambda x: -x, lambda x: +x, [filters]))

    assert set(files(excinfo)) == {"test_brief_failures.py"}
    assert isinstance(excinfo.value.__cause__, SubjectError)


def outcome(golden: str, headline: str) -> Outcome:
    return Outcome("test_a.py::test_x", golden, "structure", "mismatch", headline, (f"{golden}: {headline}", "more"))


def test_the_summary_is_the_headline_of_what_is_told():
    one, other = outcome("a", "relu removed"), outcome("b", "neg added")

    assert summary_line("a: relu removed\nmore", [one, other]) == "relu removed"
    assert summary_line("2\n\na: relu removed\nmore\n\nb: neg added\nmore", [one, other]) == (
        "relu removed (and 1 more golden)"
    )
    third = outcome("c", "exp added")
    assert summary_line("a: relu removed\nmore b: neg added\nmore c: exp added\nmore", [one, other, third]) == (
        "relu removed (and 2 more goldens)"
    )
    assert summary_line("a: relu removed\nmore", []) == "a: relu removed"


def test_without_a_golden_the_summary_is_the_first_line():
    assert summary_line("cannot trace Net\n  model.py", []) == "cannot trace Net"
    assert summary_line("", []) == ""


def test_the_summary_is_short_and_obeyed_by_no_terminal():
    assert summary_line("x" * LONGEST_SUMMARY, []) == "x" * LONGEST_SUMMARY
    for length in (LONGEST_SUMMARY + 1, 500):
        assert summary_line("x" * length, []) == "x" * (LONGEST_SUMMARY - 3) + "..."
    assert summary_line("a\x1b[2J", []) == "a\\x1b[2J"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rewrite(branch, branch), "cannot trace"),  # our error
        (lambda: checked_modes("nope"), "modes must name"),  # our line refuses a value
        (lambda: type(LEVEL).read(3, None, "place"), "pytest's line"),  # a fault of ours
        (lambda: branch("x"), "pytest's line"),  # the user's error
    ],
)
def test_the_short_summary_begins_with_the_message_where_the_plugin_raised_it(call, message):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    report = SimpleNamespace(longrepr=SimpleNamespace(reprcrash=SimpleNamespace(message="pytest's line")))

    summarize_failure(report, caught.value, [])

    assert report.longrepr.reprcrash.message.startswith(message)


def test_a_report_without_a_place_of_the_failure_keeps_its_summary():
    with pytest.raises(Exception) as caught:  # noqa: PT011
        checked_modes("nope")

    for longrepr in (None, "text", SimpleNamespace(reprcrash=None)):
        summarize_failure(SimpleNamespace(longrepr=longrepr), caught.value, [])


def called(source: str, *arguments: object) -> Callable[[], object]:
    """Return a call of a function in a made-up file of the plugin, whose second line is `source`."""
    name = str(Path(brief_failures.__file__).with_name("made_up.py"))
    text = f"def made_up(x):\n    {source}\n"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)

    def call() -> object:
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        return names["made_up"](*arguments)

    return call


def users_function(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error from KeyError("cause")

    return function


@pytest.mark.parametrize(
    ("call", "is_own"),
    [
        (called("raise ValueError('x must be 2')", 1), True),
        (called("raise ValueError", 1), False),  # says nothing to a user
        (called("return x + None", 1), False),  # a fault of ours
        (called("return (lambda: 0)(key=x)", 1), True),
        (called("return int(f'takes {x} positional')", 1), False),  # no error about a call, whatever its words
        (called("x()", users_function(SubjectError("mine"))), True),
        (called("x()", users_function(pytest.UsageError("mine"))), True),
        (called("x()", users_function(TraceError("mine"))), True),
        (called("x()", users_function(ValueError("mine"))), False),
    ],
)
def test_an_error_is_ours_by_its_class_or_if_our_line_raises_it_or_a_call_is_wrong(call, is_own):
    error = shortened(call).value

    assert (error.__suppress_context__ and error.__cause__ is None) is is_own
