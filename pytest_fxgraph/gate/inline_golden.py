"""The text of a call of `fx_golden.inline` as a place of the pipeline."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any

import pytest

from fxcore.graph import gc_paused
from pytest_fxgraph.captures.subjects import programs_of
from pytest_fxgraph.document.model import GraphDocument, recorded_at, without_code
from pytest_fxgraph.errors import GoldenError, GoldenMissingError, GoldenWriteError, SubjectError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.comparison import TestPlace, compare
from pytest_fxgraph.gate.inline_call import call_at, first_line_of, place_of
from pytest_fxgraph.gate.obtained import GoldenOptions, Hooks, ObtainedGraph, options_in_test, runs_examples
from pytest_fxgraph.goldens.inline_text import OR_WRITE, dedented, read_inline, write_inline
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import printable, printable_line
from pytest_fxgraph.settings import wants_update

_MOST_LINES = 100  # of a text that nobody has seen yet


class InlineText(TestPlace):
    """The text of one call of `fx_golden.inline`."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt, caller: types.FrameType, text: str | None) -> None:
        self._call = call = call_at(caller, text)
        super().__init__(attempt.show_inline(call.shown_in(item.config.rootpath), call, caller), item, attempt)
        self._text = dedented(text or "")

    def compare(self, subject: object, options: GoldenOptions) -> Exception | None:
        """Compare and keep the outcome; return the error to raise, None where the test may go on.

        Raises SubjectError for a set of programs, and the errors of a golden file for a subject that cannot be written
        down.
        """
        self.attempt.compared("fx_golden")
        self.attempt.uncompared.pop(self.shown, None)
        hooks = Hooks.of_test(self._item)
        is_set = len(programs_of(subject) or ()) > 1
        if is_set and (hooks.adapt is None or hooks.adapt(subject) is None):
            raise SubjectError(
                f"an inline golden holds one graph, and a {type(subject).__name__} has several programs; "
                "compare them with fx_golden, which has a file for each"
            )
        options, terms = options_in_test(options, self._item)
        with nullcontext() if runs_examples(options) else gc_paused():
            obtained = InlineGraph(subject, options, terms, hooks, first_line=self._first_line)
            outcome = Outcome(
                str(self._item.nodeid), self.shown, terms.level, "matched", inline={}, terms=terms.to_dict()
            )
            try:
                return compare(self, obtained, outcome)
            finally:
                obtained.free()

    def read(self) -> str:
        """Return the text that this test has scheduled or found right, else the text of the call."""
        text = self.attempt.inline_texts.get(self._call, self._text)
        if not text:
            raise GoldenMissingError(f"the inline golden {self.shown} has no text")
        return text

    def keep_match(self, outcome: Outcome, text: str) -> None:
        """Keep the outcome; where texts are written, keep the text from being replaced for another graph."""
        if self._item.config.getoption("fx_update_golden") and text == self._text:
            self.attempt.inline_texts[self._call] = text
            with suppress(GoldenWriteError):  # nobody can replace it
                outcome = replace(outcome, inline=asdict(place_of(self._call, self._item.config)))
        super().keep_match(outcome, text)

    def may_write(self, update: str) -> bool:
        """Return whether the run updates inline goldens like this one.

        Raises GoldenWriteError if this test compares the text with two different graphs.
        """
        config, scheduled = self._item.config, self.attempt.inline_texts.get(self._call)
        is_taken = scheduled is not None and (scheduled != self._text or wants_update(config, update))
        if update == "changed" and is_taken:
            raise GoldenWriteError(
                f"cannot write the inline golden {self.shown}: this test compares it with two different graphs; give "
                "each comparison a call of its own, or use fx_golden, which has a file for each"
            )
        # A text in the source serves every version of torch.
        return not config.getoption("fx_update_variant") and super().may_write(update)

    def schedule(self, outcome: Outcome) -> Outcome:
        """Have the text written at the end of the run. Raises GoldenWriteError if it cannot be replaced."""
        place = place_of(self._call, self._item.config)
        self.attempt.inline_texts[self._call] = outcome.new_text or ""
        return replace(outcome, inline=asdict(place))

    def way_to_accept(self) -> tuple[str, str]:
        """Return the command that writes the text; without a command, the reason why no command can."""
        try:
            place_of(self._call, self._item.config)
        except GoldenWriteError as error:
            return "", str(error)
        return super().way_to_accept()

    def in_own_words(self, error: GoldenError) -> GoldenError:
        """Return the error of a text that cannot be read, with the test's command if a command can write the text."""
        command, reason = self.way_to_accept()
        return super().in_own_words(error) if command else type(error)(str(error).replace(OR_WRITE, f"\n{reason}"))

    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        """Describe a call without a text."""
        return (
            f"the inline golden {printable_line(self.shown)} has no text yet",
            f"look at the graph below, then write the goldens of this test: {command}" if command else reason,
        )

    def _first_line(self) -> int | None:
        """Return the line of the file that holds the first line of the text."""
        begin = first_line_of(self._call, self._item.config)
        given = self._call.text or ""
        return None if begin is None else begin + given[: len(given) - len(given.lstrip())].count("\n")


class InlineGraph(ObtainedGraph):
    """An obtained graph with a text in the test as its golden. It holds code only where level `exact` compares it."""

    def __init__(self, *given: Any, first_line: Callable[[], int | None]) -> None:
        super().__init__(*given)
        self._first_line = first_line

    def matches(self, text: str) -> bool:
        """Return whether the text of a golden is the graph's own. False means that nothing is known."""
        return text == self.new_text

    def read(self, text: str, origin: str) -> GraphDocument:
        """Read the text of an inline golden. Raises GoldenFormatError if that fails, naming `origin`."""
        return read_inline(text, origin, self._first_line)

    def another_level(self, text: str, golden: GraphDocument) -> None:
        """Return None: a text in the test has one level only."""

    def section(self, shown: str) -> str:
        """Return the text that the test would get, for a report section."""
        lines = self.new_text.splitlines()
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} more lines"]
        return printable("\n".join([f"{shown} would be", *lines]))

    @functools.cached_property
    def new_text(self) -> str:
        """The text of a golden where no golden can be read."""
        return self._written(self._complete)

    def _written(self, document: GraphDocument) -> str:
        return write_inline(document)

    @property
    def _complete(self) -> GraphDocument:
        if self._is_exact:
            return self._with_code
        return recorded_at(without_code(self.document), self.terms.level)
