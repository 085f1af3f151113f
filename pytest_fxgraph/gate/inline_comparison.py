"""One comparison of a subject with a golden that stands in the test."""

from __future__ import annotations

import types
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace

import pytest

from fxcore.gc_pause import gc_paused
from pytest_fxgraph import settings
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import GoldenError, GoldenFormatError, GoldenMissingError, GoldenWriteError, SubjectError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.inline_call import call_at, first_line_of, place_of
from pytest_fxgraph.gate.mismatch import difference_at, is_drawn, is_expected_to_fail, keep_failure, keep_mismatch
from pytest_fxgraph.gate.obtained import GoldenRequest, ObtainedGraph
from pytest_fxgraph.gate.paths import accepting_command
from pytest_fxgraph.goldens.inline_text import dedented, read_inline, write_inline
from pytest_fxgraph.goldens.program_set import programs_of
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import printable, printable_line
from pytest_fxgraph.settings import wants_update

_MOST_LINES = 100  # of a text that nobody has seen yet


class InlineComparison:
    """Compares subjects with the text of one call of `fx_golden.inline`."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt, caller: types.FrameType, text: str | None) -> None:
        self._item = item
        self._attempt = attempt
        self._call = call = call_at(caller, text)
        self._shown = attempt.show_inline(call.shown_in(item.config.rootpath), call, caller)
        self._text = dedented(text or "")

    def compare(self, subject: object, request: GoldenRequest) -> Exception | None:
        """Compare and keep the outcome; return the error to raise, or None where the test may go on.

        It may go on after a mismatch, too, where an update was asked for. Raises SubjectError for a set of programs,
        and what a golden file raises for a subject that cannot be written down.
        """
        self._attempt.compared = True
        self._attempt.uncompared.pop(self._shown, None)
        if programs_of(subject) is not None and self._item.ihook.pytest_fxgraph_adapt(obj=subject) is None:
            raise SubjectError(
                f"an inline golden holds one graph, and a {type(subject).__name__} has several programs; "
                "compare them with fx_golden, which has a file for each"
            )
        level = settings.value_of(settings.LEVEL, self._item, request.level)
        with nullcontext() if request.runs_examples else gc_paused():
            obtained = ObtainedGraph(subject, request, self._item, level)
            outcome = Outcome(str(self._item.nodeid), self._shown, level, "matched", inline={})
            try:
                return self._compare(outcome, obtained, request)
            except GoldenWriteError as error:
                return self._on_error(replace(outcome, status="refused"), error)
            finally:
                obtained.free()

    def _compare(self, outcome: Outcome, obtained: ObtainedGraph, request: GoldenRequest) -> Exception | None:
        text = self._attempt.inline_texts.get(self._call, self._text)
        if not text:
            return self._on_missing(outcome, obtained)
        if text == write_inline(obtained.inline_document):  # the ordinary case
            self._keep_match(outcome, text)
            return None
        try:
            expected = read_inline(text, self._shown, self._first_line)
        except GoldenFormatError as error:
            if self._schedule(outcome, obtained.inline_document, "changed"):
                return None
            return self._on_error(replace(outcome, status="error"), error)
        difference = difference_at(outcome.level, expected, obtained.document, request, self._item)
        if difference.is_empty:
            self._keep_match(outcome, text)
            return None
        if self._is_second_graph(text):
            raise GoldenWriteError(
                f"cannot write the inline golden {self._shown}: this test compares it with two different graphs; give "
                "each comparison a call of its own, or use fx_golden, which has a file for each"
            )
        if self._schedule(outcome, obtained.inline_document_after(expected), "changed"):
            return None
        return self._on_mismatch(outcome, expected, obtained, request)

    def _is_second_graph(self, text: str) -> bool:
        """Tell whether this test has found the text right for another graph, where it would now be replaced."""
        is_new = text != self._text
        return is_new or (self._call in self._attempt.inline_texts and wants_update(self._item.config, "changed"))

    def _keep_match(self, outcome: Outcome, text: str) -> None:
        """Keep a match; where texts are written, so that nobody replaces the text for another graph."""
        if self._item.config.getoption("fx_update_golden") and text == self._text:
            self._attempt.inline_texts[self._call] = text
            with suppress(GoldenWriteError):  # nobody can replace it
                outcome = replace(outcome, inline=asdict(place_of(self._call, self._item.config)))
        self._attempt.outcomes.append(outcome)

    def _on_missing(self, outcome: Outcome, obtained: ObtainedGraph) -> Exception | None:
        if self._schedule(outcome, obtained.inline_document, "new"):
            return None
        text = write_inline(obtained.inline_document).splitlines()
        if len(text) > _MOST_LINES:
            text = [*text[:_MOST_LINES], f"... and {len(text) - _MOST_LINES} more lines"]
        command, reason = self._way_to_accept()
        lines = (
            f"the inline golden {printable_line(self._shown)} has no text yet",
            f"look at the graph below, then have it written: {command}" if command else reason,
        )
        section = printable("\n".join([f"{self._shown} would be", *text]))
        if is_drawn(self._item.config):
            outcome = replace(outcome, graphs=(encode(obtained.inline_document),))
        keep_failure(self._attempt, replace(outcome, status="missing"), lines[0], lines, section)
        return GoldenMissingError("\n".join(lines))

    def _on_error(self, outcome: Outcome, error: GoldenError) -> Exception:
        keep_failure(self._attempt, outcome, str(error), (str(error),))
        return error

    def _on_mismatch(
        self, outcome: Outcome, expected: GraphDocument, obtained: ObtainedGraph, request: GoldenRequest
    ) -> Exception:
        document = obtained.with_sources() or obtained.document
        difference = difference_at(outcome.level, expected, document, request, self._item)
        if is_drawn(self._item.config):
            texts = (encode(expected), encode(obtained.inline_document_after(expected)))
            outcome = replace(outcome, graphs=texts, sources=tuple(node.source or "" for node in document.nodes))
        command, reason = self._way_to_accept()
        return keep_mismatch(self._attempt, outcome, difference, expected, document, command=command, instead=reason)

    def _schedule(self, outcome: Outcome, document: GraphDocument, update: str) -> bool:
        """Let the comparison pass if the run is to update, and have the text written at the end of the run.

        Raises GoldenWriteError if the text could not be replaced.
        """
        config = self._item.config
        # A text in the source serves every version of torch.
        if not wants_update(config, update) or config.getoption("fx_update_variant") or is_expected_to_fail(self._item):
            return False
        place = place_of(self._call, config)
        text = self._attempt.inline_texts[self._call] = write_inline(document)
        self._attempt.outcomes.append(
            replace(outcome, status="updated", new_text=text, update=update, inline=asdict(place))
        )
        return True

    def _way_to_accept(self) -> tuple[str, str]:
        """Return the command that writes the text, or none and the reason why it could not."""
        try:
            place_of(self._call, self._item.config)
        except GoldenWriteError as error:
            return "", str(error)
        return accepting_command(self._item), ""

    def _first_line(self) -> int | None:
        """Return the line of the file that holds the first line of the text."""
        begin = first_line_of(self._call, self._item.config)
        given = self._call.text or ""
        return None if begin is None else begin + given[: len(given) - len(given.lstrip())].count("\n")
