from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pytest_fxgraph.errors import GoldenMissingError
from pytest_fxgraph.gate.attempt import (
    GoldenAttempt,
    attach_numeric_failure,
    attach_outcomes,
    attach_properties,
    extract_outcomes,
    lacked_goldens_only,
    mark_missing,
)
from pytest_fxgraph.gate.inline_call import InlineCall
from pytest_fxgraph.report.outcome import Outcome

MISSING = GoldenMissingError("there is no golden")
OUTCOME = Outcome("test_a.py::test_x", "golden/test_a/test_x.yaml", "structure", "matched", lines=("a", "b"))


def failed(count: int) -> GoldenAttempt:
    attempt = GoldenAttempt()
    for number in range(1, count + 1):
        attempt.fail_later(AssertionError(f"check {number}"), sys._getframe())
    return attempt


def asking(*, compared: bool = False) -> GoldenAttempt:
    attempt = GoldenAttempt()
    attempt.ask("fx_golden")
    if compared:
        attempt.compared("fx_golden")
    return attempt


def test_a_test_that_asked_and_compared_nothing_fails():
    attempt = asking()

    with pytest.raises(pytest.fail.Exception, match="the test asked for fx_golden and compared nothing with it; write"):
        attempt.close()


@pytest.mark.parametrize("attempt", [GoldenAttempt(), asking(compared=True)])
def test_a_test_that_compared_or_never_asked_passes(attempt):
    attempt.close()


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (1, "check 1"),
        (2, "2 goldens of this test do not match\n\ncheck 1\n\ncheck 2"),
        (5, "5 goldens of this test do not match\n\ncheck 1\n\ncheck 2\n\ncheck 3\n\ncheck 4\n\ncheck 5"),
    ],
)
def test_every_failed_check_is_told(count, message):
    with pytest.raises(AssertionError) as caught:
        failed(count).close()

    assert str(caught.value) == message


def test_from_the_sixth_failed_check_on_they_are_counted():
    with pytest.raises(AssertionError, match=r"check 5\n\nand 2 more, each in a report section of its own$"):
        failed(7).close()


def test_a_failure_is_raised_once_and_at_the_line_of_the_first_check():
    attempt = failed(2)

    with pytest.raises(AssertionError) as caught:
        attempt.raise_failed_checks()
    attempt.raise_failed_checks()

    assert "failed" in [entry.name for entry in caught.traceback]


def test_outcomes_travel_on_a_report_as_plain_data():
    report = SimpleNamespace()

    attach_outcomes([OUTCOME], report)

    assert type(report.fxgraph_outcomes[0]) is dict
    assert extract_outcomes(report) == [OUTCOME]


def test_a_report_without_outcomes_stays_as_it_was():
    report = SimpleNamespace()

    attach_outcomes([], report)

    assert vars(report) == {}
    assert extract_outcomes(report) == []


@pytest.mark.parametrize(
    ("statuses", "error", "when", "expected"),
    [
        (["matched", "missing"], MISSING, "call", True),
        (["missing", "updated"], None, "call", True),
        (["matched", "updated", "missing"], MISSING, "call", True),
        (["matched", "updated"], MISSING, "call", False),
        (["missing", "mismatch"], None, "call", False),
        (["missing"], RuntimeError("other"), "call", False),
        (["missing"], MISSING, "teardown", False),
        ([], MISSING, "call", False),
    ],
)
def test_a_test_lacks_goldens_only_if_nothing_else_is_wrong(statuses, error, when, expected):
    attempt = failed(1)
    attempt.outcomes += [Outcome("a", "b", "structure", status) for status in statuses]
    with pytest.raises(AssertionError):
        attempt.close()
    report = SimpleNamespace(when=when)

    mark_missing(attempt, error or attempt.check_error, report)

    assert lacked_goldens_only(report) is expected


def test_two_inline_goldens_of_one_line_are_told_apart_by_their_columns():
    attempt, frame = GoldenAttempt(), sys._getframe()
    first, second, unknown = (InlineCall("test_a.py", 3, end, None) for end in ((3, 20), (3, 50), None))

    names = [attempt.show_inline("test_a.py:3", call, frame) for call in (first, second, first, unknown)]

    assert names == ["test_a.py:3", "test_a.py:3:50", "test_a.py:3", "test_a.py:3"]
    assert [*attempt.uncompared] == ["test_a.py:3", "test_a.py:3:50"]


def test_properties_name_what_did_not_match_with_numbers_from_the_second_on():
    attempt, report = GoldenAttempt(), SimpleNamespace(user_properties=[])
    attempt.outcomes = [
        Outcome("t", f"{n}.yaml", "ops", status, "h") for n, status in enumerate(("matched", "missing", "error"))
    ]
    attempt.numeric_failures.append(("equivalence", "they differ"))

    attach_properties(attempt, report)

    assert report.user_properties == [
        *(("fx_golden", "1.yaml"), ("fx_level", "ops"), ("fx_status", "missing"), ("fx_headline", "h")),
        *(("fx_golden.2", "2.yaml"), ("fx_level.2", "ops"), ("fx_status.2", "error"), ("fx_headline.2", "h")),
        ("fx_equivalence", "they differ"),
    ]


class Failure(AssertionError):
    """A failed check, with its section."""

    check = "equivalence"

    def __init__(self, message: str, section: str) -> None:
        super().__init__(message)
        self.section = section

    def report_data(self, nodeid: str) -> dict[str, str]:
        return {"nodeid": nodeid}


@pytest.mark.parametrize(("section", "sections"), [("they differ\nmore", []), ("all", [("fx equivalence", "all")])])
def test_a_failure_without_a_golden_has_a_section_where_that_tells_more_than_the_error(section, sections):
    attempt, report = GoldenAttempt(), SimpleNamespace(sections=[], nodeid="t")

    attach_numeric_failure(attempt, Failure("they differ\nmore", section), report)

    assert report.sections == sections
    assert attempt.numeric_failures == [("equivalence", "they differ")]
    assert report.fxgraph_numeric_failures == [{"nodeid": "t"}]


def test_a_check_that_failed_later_is_told_to_its_caller():
    attempt = GoldenAttempt()

    assert attempt.fail_later(None, sys._getframe()) is True
    assert attempt.fail_later(AssertionError("differs"), sys._getframe()) is False
    assert attempt.failed_checks == ["differs"]


@pytest.mark.parametrize(
    ("fixture", "message"),
    [
        ("fx_golden", "the inline golden test_a.py:3 was made and compared with nothing"),
        ("fx_check", "the test asked for fx_check and compared nothing with it"),
    ],
)
def test_an_inline_golden_that_nobody_compared_is_what_a_test_asked_fx_golden_for(fixture, message):
    attempt = GoldenAttempt()
    attempt.ask(fixture)
    attempt.show_inline("test_a.py:3", InlineCall("test_a.py", 3, None, None), sys._getframe())

    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        attempt.close()
