"""One attempt of one test, with the outcomes of its goldens. The report of the test carries the outcomes."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph.errors import CheckError, GoldenMissingError

if TYPE_CHECKING:
    from pytest_fxgraph.document.model import GraphDocument
    from pytest_fxgraph.gate.inline_call import InlineCall
    from pytest_fxgraph.report.numeric_failure import NumericFailure
    from pytest_fxgraph.report.outcome import Outcome, Terms
    from pytest_fxgraph.report.stage_strip import StageStrip

# A test that checks fifty goldens in a loop: the assertion shows this many, all of them in report sections.
_MOST_SHOWN = 5
# Of a report.
_ATTRIBUTE = "fxgraph_outcomes"
_STRIPS = "fxgraph_stage_strips"
_LACKED = "fxgraph_lacked_goldens_only"
_FAILURES = "fxgraph_numeric_failures"
# JUnit properties of one test. The other reports have all goldens.
_MOST_PROPERTIES = 20


class GoldenAttempt:
    """The goldens of one attempt of one test; a rerun starts with a fresh one."""

    def __init__(self) -> None:
        self._uncompared_fixtures: dict[str, bool] = {}  # by fixture that the test asked for: True until it compares
        self.unnamed = 0  # comparisons without a name so far
        self.outcomes: list[Outcome] = []
        self.texts: dict[str, str] = {}  # by golden: the text to write if the test passes
        self.matched: list[tuple[str, Terms, GraphDocument]] = []  # the golden, and the graph that matched it
        self.traced_texts: dict[str, str] = {}  # by golden: its text if it is compared at `exact`
        self.inline_texts: dict[InlineCall, str] = {}  # where texts are written: the text that matched or is wanted
        # Inline goldens that were made and not compared yet, with the line of their test.
        self.uncompared: dict[str, types.TracebackType] = {}
        self._inline_calls: dict[str, InlineCall] = {}  # by the place that names them
        self.sections: list[tuple[str, str]] = []  # for the next report
        self.numeric_failures: list[tuple[str, str]] = []  # the name of a check and its headline
        self.strips: list[StageStrip] = []  # lowerings that fx_stages followed
        self.failed_checks: list[str] = []
        self.first_failed_check: types.TracebackType | None = None
        self.check_error: AssertionError | None = None  # raised for failed checks

    def show_inline(self, place: str, call: InlineCall, caller: types.FrameType) -> str:
        """Return the name of an inline golden that the test has made: its place, of a second one in a line the column.

        The test has to compare it.
        """
        if self._inline_calls.setdefault(place, call).end != call.end and call.end is not None:
            place = f"{place}:{call.end[1]}"
        self.uncompared[place] = _line_of(caller)
        return place

    def ask(self, fixture: str) -> None:
        """Note that the test has a fixture; the test fails unless it compares something with the fixture."""
        self._uncompared_fixtures.setdefault(fixture, True)

    def compared(self, fixture: str) -> None:
        """Note that the test compares something with a fixture."""
        self._uncompared_fixtures[fixture] = False

    def fail_later(self, error: Exception | None, caller: types.FrameType) -> bool:
        """Keep the message of a failed check, and the line of the first one; return whether the check passed.

        The test fails at its end, when the frame of the line is gone.
        """
        if error is None:
            return True
        self.failed_checks.append(str(error))
        if self.first_failed_check is None:
            self.first_failed_check = _line_of(caller)
        return False

    def close(self) -> None:
        """End the call of a test. Raise AssertionError for failed checks, and fail the test if it compared nothing."""
        __tracebackhide__ = True
        self.raise_failed_checks()
        for fixture, is_uncompared in self._uncompared_fixtures.items():
            if is_uncompared and not (fixture == "fx_golden" and self.uncompared):
                pytest.fail(
                    f"the test asked for {fixture} and compared nothing with it; "
                    f"write `assert subject == {fixture}`, or leave the fixture out",
                    pytrace=False,  # no line of the test is to blame
                )
        for place, line in self.uncompared.items():
            raise AssertionError(
                f"the inline golden {place} was made and compared with nothing; "
                "write `assert subject == fx_golden.inline(...)`"
            ).with_traceback(line)

    def raise_failed_checks(self) -> None:
        """Raise AssertionError for the checks that failed since the last call."""
        __tracebackhide__ = True
        failed, self.failed_checks = self.failed_checks, []
        if failed:
            self.check_error = AssertionError(_failure_message(failed))
            raise self.check_error.with_traceback(self.first_failed_check)


def _line_of(caller: types.FrameType) -> types.TracebackType:
    return types.TracebackType(None, caller, caller.f_lasti, caller.f_lineno)


def _failure_message(failures: list[str]) -> str:
    if len(failures) == 1:
        return failures[0]
    from pytest_fxgraph.report.printable import first_lines

    more = "and {} more, each in a report section of its own"
    lines = [f"{len(failures)} goldens of this test do not match", *first_lines(failures, _MOST_SHOWN, more)]
    return "\n\n".join(lines)


def attach_outcomes(outcomes: Iterable[Outcome], report: pytest.TestReport, strips: Iterable[StageStrip] = ()) -> None:
    """Put outcomes and lowerings on a report as plain data, which pytest-xdist carries; an empty list is left out."""
    for name, plain in ((_ATTRIBUTE, [*map(given_fields, outcomes)]), (_STRIPS, [*map(asdict, strips)])):
        if plain:
            setattr(report, name, plain)


def given_fields(outcome: Outcome) -> dict[str, Any]:
    """Return the fields that are not the default; `record_of` knows the others. `asdict` takes ten times as long."""
    defaults = vars(type(outcome))
    return {name: value for name, value in vars(outcome).items() if name not in defaults or value != defaults[name]}


def attach_properties(attempt: GoldenAttempt, report: pytest.TestReport) -> None:
    """Name goldens that did not match in properties of the report, for JUnit XML and other readers of properties."""
    found: list[tuple[str, object]] = []
    told = [outcome for outcome in attempt.outcomes if outcome.status != "matched"][:_MOST_PROPERTIES]
    for number, outcome in enumerate(told, start=1):
        end = f".{number}" if number > 1 else ""
        found += [(f"fx_golden{end}", outcome.golden), (f"fx_level{end}", outcome.level)]
        found += [(f"fx_status{end}", outcome.status), (f"fx_headline{end}", outcome.headline)]
    report.user_properties += [*found, *((f"fx_{check}", headline) for check, headline in attempt.numeric_failures)]


def attach_numeric_failure(attempt: GoldenAttempt, error: CheckError, report: pytest.TestReport) -> None:
    """Put the failure of a check without a golden on the report of its test, as plain data."""
    if error.section != str(error):
        report.sections.append((f"fx {error.check}", error.section))
    attempt.numeric_failures.append((error.check, str(error).partition("\n")[0]))
    setattr(report, _FAILURES, [error.report_data(str(report.nodeid))])


def extract_numeric_failures(report: pytest.TestReport) -> list[NumericFailure]:
    """Return the numeric failures that came with a report."""
    from pytest_fxgraph.report.numeric_failure import NumericFailure
    from pytest_fxgraph.report.plain_data import record_of

    return [record_of(NumericFailure, each) for each in getattr(report, _FAILURES, ())]


def mark_missing(attempt: GoldenAttempt, error: BaseException, report: pytest.TestReport) -> None:
    """Mark the report of a failed call if nothing is wrong but that goldens are missing."""
    if report.when != "call" or not (isinstance(error, GoldenMissingError) or error is attempt.check_error):
        return
    statuses = {outcome.status for outcome in attempt.outcomes}
    if "missing" in statuses and statuses <= {"matched", "updated", "missing"}:
        setattr(report, _LACKED, True)


def lacked_goldens_only(report: pytest.TestReport) -> bool:
    """Tell whether `mark_missing` marked a report."""
    return getattr(report, _LACKED, False) is True


def extract_strips(report: pytest.TestReport) -> list[StageStrip]:
    """Return the lowerings that came with a report, of its test."""
    from pytest_fxgraph.report.plain_data import record_of
    from pytest_fxgraph.report.stage_strip import StageStrip

    found = getattr(report, _STRIPS, ())
    return [record_of(StageStrip, {**each, "nodeid": str(report.nodeid)}) for each in found]


def extract_outcomes(report: pytest.TestReport) -> list[Outcome]:
    """Return the outcomes that came with a report."""
    from pytest_fxgraph.report.outcome import Outcome
    from pytest_fxgraph.report.plain_data import record_of

    return [record_of(Outcome, each) for each in getattr(report, _ATTRIBUTE, ())]
