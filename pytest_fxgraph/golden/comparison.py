"""One comparison of a subject with its golden: find the file, write the subject down, compare, keep the outcome."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
import torch

from pytest_fxgraph import settings
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import (
    GoldenError,
    GoldenFormatError,
    GoldenMissingError,
    GoldenNameError,
    GoldenVersionError,
)
from pytest_fxgraph.golden.attempt import GoldenAttempt
from pytest_fxgraph.golden.collection import has_case_collision
from pytest_fxgraph.golden.elsewhere import goldens_elsewhere
from pytest_fxgraph.golden.files import base_path, golden_digest, variant_path, variant_suffix
from pytest_fxgraph.golden.location import golden_path
from pytest_fxgraph.golden.obtained import GoldenRequest, ObtainedGraph
from pytest_fxgraph.golden.paths import accepting_command, golden_layout, golden_root, shown, within_folder
from pytest_fxgraph.golden.renamed import graph_digest
from pytest_fxgraph.golden.store import GoldenStore
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import printable_line


class GoldenComparison:
    """Compares the subjects of one attempt of one test with its goldens."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt) -> None:
        self._item = item
        self._attempt = attempt
        self._store = GoldenStore(golden_root(item.config))

    def compare(self, subject: object, request: GoldenRequest) -> Exception | None:
        """Compare and keep the outcome; return the error to raise, or None where the test may go on.

        It may go on after a mismatch, too, where an update was asked for: the new text is then written once the test
        has passed. Raises SubjectError, CaptureError or DocumentError for a subject that cannot be written down, and
        GoldenNameError for a name that no golden may have.
        """
        self._attempt.compared = True
        level = settings.value_of(settings.LEVEL, self._item, request.level)
        base = self._location(request.name)
        obtained = ObtainedGraph(subject, request, self._item)
        path = self._variant_or(base)
        outcome = Outcome(str(self._item.nodeid), self._shown(path), level, "matched")
        try:
            text = self._expected_text(path)
            outcome = replace(outcome, expected_digest=golden_digest(text.encode("utf-8", "surrogatepass")))
            if text == obtained.text:  # the ordinary case, which costs no YAML
                self._attempt.outcomes.append(outcome)
                return None
            expected = _decoded(text, outcome.golden)
        except GoldenMissingError:
            return self._on_missing(outcome, obtained)
        except GoldenError as error:
            return self._on_error(outcome, error, obtained.text)
        difference = self._difference(expected, obtained.document, level, request)
        if difference.is_empty:
            self._attempt.outcomes.append(outcome)
            return None
        if self._schedule_update(outcome, obtained.text, "changed"):
            return None
        outcome = replace(outcome, received=self._received(obtained.text))
        document = obtained.with_sources()
        if document is None:
            return self._on_mismatch(outcome, difference, expected, obtained.document)
        return self._on_mismatch(outcome, self._difference(expected, document, level, request), expected, document)

    # Which golden.

    def _location(self, name: str | None) -> PurePosixPath:
        item = self._item
        if name is None:
            self._attempt.unnamed += 1
        callspec = getattr(item, "callspec", None)
        return golden_path(
            os.path.relpath(item.path, item.config.rootpath).replace(os.sep, "/"),
            [node.name for node in item.listchain() if isinstance(node, pytest.Class)],
            getattr(item, "originalname", None) or item.name,
            None if callspec is None else callspec.id,
            name,
            position=self._attempt.unnamed,
            has_case_collision=has_case_collision(item),
            is_beside=golden_layout(item.config).is_beside,
        )

    def _variant_or(self, base: PurePosixPath) -> PurePosixPath:
        """Return the variant for the torch that is running, where there is one, else the base."""
        variant = variant_path(base, str(torch.__version__))
        # A place outside the folder is refused where it is read.
        with suppress(GoldenNameError):
            if self._shown(variant) in self._attempt.texts or self._store.exists(variant):
                return variant
        return base

    def _expected_text(self, path: PurePosixPath) -> str:
        """Return the text to compare with: what this very test is about to write, else the golden's."""
        scheduled = self._attempt.texts.get(self._shown(path))
        return self._store.read(path) if scheduled is None else scheduled

    def _shown(self, path: PurePosixPath) -> str:
        return shown(path, self._item.config)

    # What follows imports where it first needs to: a run in which every golden matches never parses YAML.

    def _difference(
        self, expected: GraphDocument, obtained: GraphDocument, level: str, request: GoldenRequest
    ) -> Difference:
        from pytest_fxgraph.compare.levels import compare_documents

        return compare_documents(
            expected,
            obtained,
            level=level,
            commutative=settings.value_of(settings.COMMUTATIVE, self._item, request.commutative),
            normalize=settings.value_of(settings.NORMALIZE, self._item, request.normalize),
        )

    def _on_missing(self, outcome: Outcome, obtained: ObtainedGraph) -> Exception | None:
        outcome = replace(
            outcome,
            graph_digest=graph_digest(obtained.text, outcome.level),
            variant=variant_suffix(str(torch.__version__)),
        )
        if self._schedule_update(outcome, obtained.text, "new"):
            return None
        from pytest_fxgraph.report.graph_summary import summary_section

        section = summary_section(obtained.document, golden=outcome.golden)
        command = accepting_command(self._item)
        lines = (
            f"there is no golden {printable_line(outcome.golden)}",
            *goldens_elsewhere(self._item, within_folder(outcome.golden, self._item.config)),
            f"look at the graph below, then write it: {command}",
        )
        outcome = replace(outcome, status="missing", received=self._received(obtained.text))
        self._keep_failure(outcome, lines[0], lines, section)
        return GoldenMissingError("\n".join(lines))

    def _on_error(self, outcome: Outcome, error: GoldenError, obtained: str) -> Exception | None:
        # What a newer release wrote is no accident; anything else that cannot be read no longer matches anything.
        is_damaged = isinstance(error, GoldenFormatError) and not isinstance(error, GoldenVersionError)
        if is_damaged and self._schedule_update(outcome, obtained, "changed"):
            return None
        received = self._received(obtained) if is_damaged else None
        if received is not None:
            with suppress(GoldenError):  # no file, or none that could be replaced
                digest = self._store.digest(within_folder(outcome.golden, self._item.config))
                outcome = replace(outcome, expected_digest=digest)
        self._keep_failure(replace(outcome, status="error", received=received), str(error), (str(error),))
        return error

    def _on_mismatch(
        self, outcome: Outcome, difference: Difference, expected: GraphDocument, obtained: GraphDocument
    ) -> Exception:
        from pytest_fxgraph.report.clusters import cluster_key
        from pytest_fxgraph.report.text import full_section, headline, short_lines

        outcome = replace(outcome, cluster=cluster_key(difference, outcome.golden))
        command = accepting_command(self._item)
        lines = tuple(short_lines(difference, golden=outcome.golden, command=command))
        section = full_section(difference, expected, obtained, golden=outcome.golden, command=command)
        self._keep_failure(replace(outcome, status="mismatch"), headline(difference), lines, section)
        return AssertionError("\n".join(lines))

    def _keep_failure(self, outcome: Outcome, headline: str, lines: tuple[str, ...], section: str = "") -> None:
        if section:
            self._attempt.sections.append((outcome.section_name, section))
        self._attempt.outcomes.append(replace(outcome, headline=headline, lines=lines, section=section))

    # What is to be written.

    def _schedule_update(self, outcome: Outcome, obtained: str, update: str) -> bool:
        """Let the comparison pass if the run is to update, and have the text written once the test has passed.

        Refused where this test is about to write another text to the golden: one of the two would be lost.
        """
        is_wanted = settings.wants_update(self._item.config, update)
        golden = self._updated_golden(outcome.golden)
        if not is_wanted or golden in self._attempt.texts or _is_expected_to_fail(self._item):
            return False
        self._attempt.texts[golden] = obtained
        outcome = replace(outcome, golden=golden, status="updated", new_text=obtained, update=update)
        self._attempt.outcomes.append(outcome)
        return True

    def _updated_golden(self, golden: str) -> str:
        """Return the file that an update writes: the one that was compared, or the variant if that was asked for."""
        if not self._item.config.getoption("fx_update_variant"):
            return golden
        base = base_path(within_folder(golden, self._item.config))
        return self._shown(variant_path(base, str(torch.__version__)))

    def _received(self, obtained: str) -> str | None:
        return obtained if self._item.config.getoption("fx_received") else None


def _decoded(text: str, origin: str) -> GraphDocument:
    from pytest_fxgraph.document.decoding import decode

    return decode(text, origin)


def _is_expected_to_fail(item: pytest.Item) -> bool:
    """Tell whether an xfail marker holds for the test.

    Such a test is no place to update goldens from, and letting its mismatch pass would turn it into an unexpected pass.
    pytest keeps what it found out about the markers to itself, hence the import of a private function; where it is
    missing, a marker counts whatever its condition.
    """
    try:
        from _pytest.skipping import evaluate_xfail_marks
    except ImportError:
        return item.get_closest_marker("xfail") is not None
    return evaluate_xfail_marks(item) is not None
