"""The one pipeline of goldens: read, compare, then match, update or fail.

A `Place` is a file of a test, a file of a script, a text in a test, or a row of a table. An `Obtained` is the graph or
the row that the test hands over. The pipeline knows nothing else of either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import pytest

from pytest_fxgraph import errors
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.commands import accepting_command
from pytest_fxgraph.report.outcome import Outcome, Told
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.settings import wants_update

_Golden = TypeVar("_Golden")


class Obtained(Protocol[_Golden]):
    """The graph or row that a test hands over."""

    @property
    def new_text(self) -> str:
        """The text of a golden where no golden can be read."""

    def matches(self, text: str) -> bool:
        """Return whether a golden's text matches, in the fastest way; False means that nothing is known."""

    def read(self, text: str, origin: str) -> _Golden:
        """Read a golden's text. Raises GoldenFormatError, naming `origin`."""

    def differs_from(self, golden: _Golden) -> bool:
        """Return whether the golden is another one."""

    def told(
        self, golden: _Golden, shown: str, command: str, *, is_alone: bool, is_drawn: bool, has_variants: bool
    ) -> Told:
        """Describe the difference from a golden that `differs_from` found."""

    def another_level(self, text: str, golden: _Golden) -> str | None:
        """Name the facts that a golden of this graph lacks because another level wrote it; None for other goldens."""

    def text_after(self, golden: _Golden) -> str:
        """Return the text that replaces a golden."""

    def section(self, shown: str) -> str:
        """Return the content that a missing golden would get, for a report section."""

    def picture(self) -> tuple[str, ...]:
        """Return the pictures of a missing golden for reports."""


class Place(ABC):
    """Where a golden stands. The base class serves places without pictures and received files."""

    has_variants = False  # a golden of a torch version may stand beside it
    is_drawn = False  # a report of the run shows pictures
    is_alone = True  # the command that accepts the golden writes no other one, as far as is known
    tells_all = False  # the error has the report section, because no report has it

    def __init__(self, shown: str, attempt: GoldenAttempt) -> None:
        self.shown = shown
        self.attempt = attempt

    @abstractmethod
    def read(self) -> str:
        """Return the text to compare with. Raises GoldenMissingError or another GoldenError."""

    @abstractmethod
    def may_write(self, update: str) -> bool:
        """Return whether the run writes "new" or "changed" goldens here. Raises GoldenWriteError if it cannot."""

    @abstractmethod
    def schedule(self, outcome: Outcome) -> Outcome:
        """Have `outcome.new_text` written once the test has passed; return the outcome with the place to write to."""

    def keep_match(self, outcome: Outcome, text: str) -> None:
        """Keep the outcome of a golden that matches."""
        self.attempt.outcomes.append(outcome)

    @abstractmethod
    def way_to_accept(self) -> tuple[str, str]:
        """Return the command that writes the golden, and a remark. Without a command, the remark is the next step."""

    @abstractmethod
    def in_own_words(self, error: errors.GoldenError) -> errors.GoldenError:
        """Return the error of a golden that cannot be read, with a next step that the place knows."""

    @abstractmethod
    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        """Describe a golden that is missing."""

    def with_digest(self, outcome: Outcome, text: str | None) -> Outcome:
        """Note the golden's digest in the outcome. `text` is None for a golden that could not be read."""
        return outcome

    def with_graph(self, outcome: Outcome, text: str) -> Outcome:
        """Note the graph of a missing golden in the outcome, so that the golden of a renamed test is found."""
        return outcome

    def with_received(self, outcome: Outcome, text: Callable[[], str]) -> Outcome:
        """Note the text to keep beside the golden in the outcome, if the run keeps received files."""
        return outcome


class TestPlace(Place):
    """A place of a test in a run of pytest. The run says what is written and drawn."""

    __test__ = False  # pytest collects no class of this name

    def __init__(self, shown: str, item: pytest.Item, attempt: GoldenAttempt) -> None:
        super().__init__(shown, attempt)
        self._item = item
        # Of the reports, only pages and Markdown show pictures of graphs.
        self.is_drawn = any(path.endswith((".html", ".md")) for path in item.config.getoption("fx_report"))

    @property
    def is_alone(self) -> bool:  # type: ignore[override]  # the base class has a fixed answer
        """Whether the test has no other golden, as far as is known."""
        others = {outcome.golden for outcome in self.attempt.outcomes} | self.attempt.uncompared.keys()
        return others <= {self.shown}

    def may_write(self, update: str) -> bool:
        """Return whether the run updates goldens like this one."""
        return wants_update(self._item.config, update) and not _is_expected_to_fail(self._item)

    def way_to_accept(self) -> tuple[str, str]:
        """Return the command that writes the goldens of this test."""
        return "" if _is_expected_to_fail(self._item) else accepting_command(self._item), ""

    def in_own_words(self, error: errors.GoldenError) -> errors.GoldenError:
        """Return the error with the command of this test in place of a command that writes all goldens."""
        return type(error)(str(error).replace("pytest --fx-update-golden", accepting_command(self._item)))


def _is_expected_to_fail(item: pytest.Item) -> bool:
    """Return whether an xfail marker holds for the test.

    Such a test updates no golden: if its mismatch passed, the test would pass unexpectedly. pytest keeps the evaluated
    markers to itself, therefore a private function is imported. Without the function, a marker counts whatever its
    condition.
    """
    try:
        from _pytest.skipping import evaluate_xfail_marks
    except ImportError:
        return item.get_closest_marker("xfail") is not None
    return evaluate_xfail_marks(item) is not None


def compare(place: Place, obtained: Obtained[Any], outcome: Outcome) -> Exception | None:
    """Compare and keep the outcome; return the error to raise, None where the test may go on.

    The test may go on after a mismatch, too, if the run updates goldens: the new text is written once the test passed.
    """
    try:
        return _compared(place, obtained, outcome)
    except errors.GoldenWriteError as error:
        return _failed(place, replace(outcome, status="refused"), Told(str(error), (str(error),)), error)


def _compared(place: Place, obtained: Obtained[Any], outcome: Outcome) -> Exception | None:
    try:
        text = place.read()
        if obtained.matches(text):
            place.keep_match(outcome, text)
            return None
        outcome = place.with_digest(outcome, text)
        golden = obtained.read(text, place.shown)
    except errors.GoldenMissingError:
        return _missing(place, obtained, outcome)
    except errors.GoldenError as error:
        return _unreadable(place, obtained, outcome, error)
    if not obtained.differs_from(golden):
        place.keep_match(outcome, text)
        return None
    if _is_scheduled(place, outcome, "changed", lambda: obtained.text_after(golden)):
        return None
    outcome = place.with_received(outcome, lambda: obtained.text_after(golden))
    command, reason = place.way_to_accept()
    words = obtained.another_level(text, golden)
    if words is not None:
        told = Told(words, _lines_of_another_level(place.shown, words, command, reason))
    else:
        told = obtained.told(
            golden,
            place.shown,
            command,
            is_alone=place.is_alone,
            is_drawn=place.is_drawn,
            has_variants=place.has_variants,
        )
        told = told._replace(lines=(*told.lines, f"  {reason}")) if reason else told
    mismatch = AssertionError(_message(place, told))
    return _failed(place, replace(outcome, status="mismatch", command=command), told, mismatch)


def _missing(place: Place, obtained: Obtained[Any], outcome: Outcome) -> Exception | None:
    outcome = place.with_graph(outcome, obtained.new_text)
    if _is_scheduled(place, outcome, "new", lambda: obtained.new_text):
        return None
    command, reason = place.way_to_accept()
    lines = place.missing_lines(command, reason)
    graphs = obtained.picture() if place.is_drawn else ()
    told = Told(lines[0], lines, obtained.section(place.shown), graphs=graphs)
    outcome = place.with_received(replace(outcome, status="missing", command=command), lambda: obtained.new_text)
    return _failed(place, outcome, told, errors.GoldenMissingError(_message(place, told)))


def _unreadable(place: Place, obtained: Obtained[Any], outcome: Outcome, error: errors.GoldenError) -> Exception | None:
    error = place.in_own_words(error)
    # A newer release wrote a file of another version on purpose. Any other file that cannot be read is damaged.
    command = ""
    if isinstance(error, errors.GoldenFormatError) and not isinstance(error, errors.GoldenVersionError):
        outcome = place.with_digest(outcome, None)
        if _is_scheduled(place, outcome, "changed", lambda: obtained.new_text):
            return None
        outcome = place.with_received(outcome, lambda: obtained.new_text)
        command, _ = place.way_to_accept()
    return _failed(place, replace(outcome, status="error", command=command), Told(str(error), (str(error),)), error)


def _is_scheduled(place: Place, outcome: Outcome, update: str, text: Callable[[], str]) -> bool:
    """Let the comparison pass if the run updates the golden, and return whether it does."""
    if not place.may_write(update):
        return False
    outcome = place.schedule(replace(outcome, status="updated", new_text=text(), update=update))
    place.attempt.outcomes.append(outcome)
    return True


def _failed(place: Place, outcome: Outcome, told: Told, error: Exception) -> Exception:
    """Keep the outcome of a comparison that failed, and its report section."""
    if told.section:
        place.attempt.sections.append((outcome.section_name, told.section))
    is_alone = place.is_alone and outcome.status != "missing"  # the test may lack goldens that it did not ask for yet
    place.attempt.outcomes.append(replace(outcome, is_alone=is_alone, **told._asdict()))
    return error


def _message(place: Place, told: Told) -> str:
    return "\n".join([*told.lines, *(["", told.section] if place.tells_all and told.section else [])])


def _lines_of_another_level(shown: str, words: str, command: str, reason: str) -> tuple[str, ...]:
    return (
        f"{printable_line(shown)} does not match: {words}",
        "  it was last written for another level, at which neither names nor code count",
        "  compared at level exact; the graph is the same, so this is enough",
        f"    {command or reason}",
    )


def vanished_lines(program: str, golden: str, programs: Iterable[str], remedy: str) -> tuple[str, ...]:
    """Describe a golden whose program is gone."""
    return (
        f"the program {program!r} is gone, which the golden {golden} holds",
        f"the subject has {', '.join(programs)}",
        f"if that is right, {remedy}",
    )
