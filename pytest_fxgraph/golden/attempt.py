"""What one attempt of one test did with goldens, until its reports have taken it along."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
import pytest
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
import pytest

if TYPE_CHECKING:
    from pytest_fxgraph.report.outcome import Outcome
    from pytest_fxgraph.report.outcome import Outcome


# A test that checks fifty goldens in a loop: this many are worded in the assertion, all of them in report sections.
_WORDED = 5


@dataclass
class GoldenAttempt:
    """The goldens of one attempt of one test; a rerun starts with a fresh one."""

    asked: bool = False  # the test has the fixture fx_golden
    compared: bool = False
    unnamed: int = 0  # comparisons without a name so far
    outcomes: list[Outcome] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # by golden: what is to be written if the test passes
    sections: list[tuple[str, str]] = field(default_factory=list)  # for the next report
    failed_checks: list[str] = field(default_factory=list)
    first_failed_check: types.TracebackType | None = None

    def fail_later(self, words: str, caller: types.FrameType) -> None:
        """Note a failed check, and the line of the first one, which will long have been left when the test fails."""
        self.failed_checks.append(words)
        if self.first_failed_check is None:
            self.first_failed_check = types.TracebackType(None, caller, caller.f_lasti, caller.f_lineno)

    def close(self) -> None:
        """Fail the test, at the end of its call, for what `check` found or for having compared nothing."""
        __tracebackhide__ = True
        self.raise_failed_checks()
        if self.asked and not self.compared:
            raise AssertionError(
                "the test asked for fx_golden and compared nothing with it; "
                "write `assert subject == fx_golden`, or leave the fixture out"
            )

    def raise_failed_checks(self) -> None:
        """Fail for what `check` found since it was last asked."""
        __tracebackhide__ = True
        failed, self.failed_checks = self.failed_checks, []
        if failed:
            raise AssertionError(_words_of(failed)).with_traceback(self.first_failed_check)


ATTEMPT = pytest.StashKey[GoldenAttempt]()


def attempt_of(item: pytest.Item) -> GoldenAttempt:
    """Return the attempt that is under way."""
    return item.stash.setdefault(ATTEMPT, GoldenAttempt())


def start_attempt(item: pytest.Item) -> None:
    """Forget what an earlier attempt of the same test did."""
    item.stash[ATTEMPT] = GoldenAttempt()


def _words_of(failures: list[str]) -> str:
    if len(failures) == 1:
        return failures[0]
    words = [f"{len(failures)} goldens of this test do not match"]
    words += failures[:_WORDED]
    if len(failures) > _WORDED:
        words.append(f"and {len(failures) - _WORDED} more, each in a report section of its own")
    return "\n\n".join(words)


_ATTRIBUTE = "fxgraph_outcomes"


def attach_outcomes(outcomes: Iterable[Outcome], report: pytest.TestReport) -> None:
    """Put outcomes on a report; one that has none stays as it was."""
    plain = [outcome.to_dict() for outcome in outcomes]
    if plain:
        setattr(report, _ATTRIBUTE, plain)


def extract_outcomes(report: pytest.TestReport) -> list[Outcome]:
    """Return the outcomes that came with a report."""
    plain: list[dict[str, Any]] = getattr(report, _ATTRIBUTE, [])
    if not plain:
        return []
    from pytest_fxgraph.report.outcome import Outcome  # here: the plugin imports this file in every run

    return [Outcome.from_dict(each) for each in plain]
