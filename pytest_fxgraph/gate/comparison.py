"""One comparison of a subject with its golden: find the file, write the subject down, compare, keep the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest
import torch

from fxcore.gc_pause import gc_paused
from pytest_fxgraph import settings
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import (
    GoldenError,
    GoldenFormatError,
    GoldenMissingError,
    GoldenNameError,
    GoldenVersionError,
)
from pytest_fxgraph.gate.activation import is_worker
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.collection import has_case_collision
from pytest_fxgraph.gate.elsewhere import goldens_elsewhere
from pytest_fxgraph.gate.mismatch import difference_at, is_drawn, is_expected_to_fail, keep_failure, keep_mismatch
from pytest_fxgraph.gate.obtained import GoldenRequest, ObtainedGraph
from pytest_fxgraph.gate.paths import (
    accepting_command,
    golden_layout,
    golden_root,
    shown,
    slashed_path,
    within_folder,
)
from pytest_fxgraph.goldens.files import base_path, golden_digest, variant_path, variant_paths, variant_suffix
from pytest_fxgraph.goldens.location import golden_path
from pytest_fxgraph.goldens.program_set import joined_error, programs_of, vanished_programs
from pytest_fxgraph.goldens.renamed import graph_digest
from pytest_fxgraph.goldens.store import GoldenStore
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
        programs = programs_of(subject)
        if programs is not None and self._item.ihook.pytest_fxgraph_adapt(obj=subject) is None:
            return self._compare_programs(programs, request)
        level = settings.value_of(settings.LEVEL, self._item, request.level)
        base = self._location(request)
        # Until all that is made for the comparison is freed again: the garbage collector would go through it once,
        # which takes a fortieth of the time. What a model leaves that runs on examples is not to pile up.
        with nullcontext() if request.runs_examples else gc_paused():
            obtained = ObtainedGraph(subject, request, self._item, level)
            path = self._variant_or(base)
            outcome = Outcome(str(self._item.nodeid), self._shown(path), level, "matched")
            try:
                return self._compare(outcome, path, obtained, request)
            finally:
                obtained.free()

    def _compare(
        self, outcome: Outcome, path: PurePosixPath, obtained: ObtainedGraph, request: GoldenRequest
    ) -> Exception | None:
        if outcome.level == "exact":
            self._keep_traced_names(outcome.golden, obtained)
        try:
            text = self._expected_text(path)
            is_same = obtained.matches(text)  # the ordinary case, which costs no YAML
            if not is_same or is_worker(self._item.config):  # a controller elsewhere checks what a worker compared with
                outcome = replace(outcome, expected_digest=golden_digest(text.encode("utf-8", "surrogatepass")))
            if is_same:
                self._attempt.outcomes.append(outcome)
                return None
            expected = _decoded(text, outcome.golden)
        except GoldenMissingError:
            return self._on_missing(outcome, obtained)
        except GoldenError as error:
            return self._on_error(outcome, error, obtained)
        difference = difference_at(outcome.level, expected, obtained.document, request, self._item)
        if difference.is_empty:
            self._attempt.outcomes.append(outcome)
            return None
        if self._schedule_update(outcome, obtained, "changed", expected):
            return None
        outcome = replace(outcome, received=self._received(outcome.golden, obtained, expected))
        if outcome.level == "exact" and obtained.differs_in_names_at_most(text):
            words = _words_of_another_level(difference, expected)
            if words is not None:
                return self._on_golden_of_another_level(outcome, words)
        document = obtained.with_sources()
        if document is None:
            return self._on_mismatch(outcome, difference, expected, obtained.document, obtained)
        difference = difference_at(outcome.level, expected, document, request, self._item)
        return self._on_mismatch(outcome, difference, expected, document, obtained)

    def _compare_programs(self, programs: Mapping[str, Any], request: GoldenRequest) -> Exception | None:
        """Compare each program of a set with its golden; a golden of a program that is gone is a mismatch, too."""
        if request.name is None:
            self._attempt.unnamed += 1
        request = replace(request, position=self._attempt.unnamed)
        errors = [self.compare(program, replace(request, program=name)) for name, program in programs.items()]
        vanished = vanished_programs(self._store, lambda name: self._location(replace(request, program=name)), programs)
        if not settings.wants_update(self._item.config, "changed"):
            level = settings.value_of(settings.LEVEL, self._item, request.level)
            errors += [self._on_vanished(name, place, level, programs) for name, place in vanished.items()]
        return joined_error(errors)

    def _on_vanished(self, name: str, place: PurePosixPath, level: str, programs: Iterable[str]) -> Exception:
        golden = self._shown(place)
        command = f"{accepting_command(self._item)} --fx-prune-golden"
        lines = (
            f"the program {name!r} is gone, which the golden {golden} holds",
            f"the subject has {', '.join(programs)}",
            f"if that is right, remove its golden: {command}",
        )
        outcome = Outcome(str(self._item.nodeid), golden, level, "mismatch", command=command)
        keep_failure(self._attempt, outcome, lines[0], lines)
        return AssertionError("\n".join(lines))

    # Which golden.

    def _location(self, request: GoldenRequest) -> PurePosixPath:
        item, name = self._item, request.name
        if name is None and request.program is None:
            self._attempt.unnamed += 1
        callspec = getattr(item, "callspec", None)
        return golden_path(
            slashed_path(item.path, item.config.rootpath),
            [node.name for node in item.listchain() if isinstance(node, pytest.Class)],
            getattr(item, "originalname", None) or item.name,
            None if callspec is None else callspec.id,
            name,
            position=self._attempt.unnamed if request.position is None else request.position,
            program=request.program,
            has_case_collision=has_case_collision(item),
            is_beside=golden_layout(item.config).is_beside,
        )

    def _variant_or(self, base: PurePosixPath) -> PurePosixPath:
        """Return the variant for the torch and the platform that run, where there is one, else the base."""
        # A place outside the folder is refused where it is read.
        with suppress(GoldenNameError):
            for place in variant_paths(base, str(torch.__version__), has_cuda=torch.cuda.is_available())[:-1]:
                if self._shown(place) in self._attempt.texts or self._store.exists(place):
                    return place
        return base

    def _expected_text(self, path: PurePosixPath) -> str:
        """Return the text to compare with: what this very test is about to write, else the golden's."""
        scheduled = self._attempt.texts.get(self._shown(path))
        return self._store.read(path) if scheduled is None else scheduled

    def _shown(self, path: PurePosixPath) -> str:
        return shown(path, self._item.config)

    # What follows imports where it first needs to: a run in which every golden matches never parses YAML.

    def _on_missing(self, outcome: Outcome, obtained: ObtainedGraph) -> Exception | None:
        outcome = replace(
            outcome,
            graph_digest=graph_digest(obtained.new_text, outcome.level),
            variant=variant_suffix(str(torch.__version__)),
        )
        if self._schedule_update(outcome, obtained, "new"):
            return None
        from pytest_fxgraph.report.graph_summary import summary_section

        section = summary_section(obtained.document, golden=outcome.golden)
        command = accepting_command(self._item)
        lines = (
            f"there is no golden {printable_line(outcome.golden)}",
            *goldens_elsewhere(self._item, within_folder(outcome.golden, self._item.config)),
            f"look at the graph below, then write it: {command}",
        )
        outcome = replace(outcome, status="missing", received=self._received(outcome.golden, obtained))
        if is_drawn(self._item.config):
            outcome = replace(outcome, graphs=(obtained.new_text,))
        keep_failure(self._attempt, replace(outcome, command=command), lines[0], lines, section)
        return GoldenMissingError("\n".join(lines))

    def _on_error(self, outcome: Outcome, error: GoldenError, obtained: ObtainedGraph) -> Exception | None:
        # What a newer release wrote is no accident; anything else that cannot be read no longer matches anything.
        is_damaged = isinstance(error, GoldenFormatError) and not isinstance(error, GoldenVersionError)
        if is_damaged and self._schedule_update(outcome, obtained, "changed"):
            return None
        received = self._received(outcome.golden, obtained) if is_damaged else None
        if received is not None:
            with suppress(GoldenError):  # no file, or none that could be replaced
                digest = self._store.digest(within_folder(outcome.golden, self._item.config))
                outcome = replace(outcome, expected_digest=digest)
        command = accepting_command(self._item) if is_damaged else ""
        outcome = replace(outcome, status="error", received=received, command=command)
        keep_failure(self._attempt, outcome, str(error), (str(error),))
        return error

    def _on_mismatch(
        self,
        outcome: Outcome,
        difference: Difference,
        expected: GraphDocument,
        obtained: GraphDocument,
        graph: ObtainedGraph,
    ) -> Exception:
        from pytest_fxgraph.report.other_torch import other_torch_remark

        if is_drawn(self._item.config):
            sources = tuple(node.source or "" for node in obtained.nodes)
            outcome = replace(outcome, graphs=(encode(expected), graph.text_after(expected)), sources=sources)
        command = accepting_command(self._item)
        remark = other_torch_remark(difference, str(torch.__version__))
        return keep_mismatch(self._attempt, outcome, difference, expected, obtained, command=command, remark=remark)

    def _on_golden_of_another_level(self, outcome: Outcome, words: str) -> Exception:
        """Fail a golden that holds this graph, and was written where names and code do not count."""
        command = accepting_command(self._item)
        lines = (
            f"{printable_line(outcome.golden)} does not match: {words}",
            "  it was last written for another level, at which neither names nor code count",
            "  compared at level exact; the graph is the same, so this is enough",
            f"    {command}",
        )
        keep_failure(self._attempt, replace(outcome, status="mismatch", command=command), words, lines)
        return AssertionError("\n".join(lines))

    # What is to be written.

    def _schedule_update(
        self, outcome: Outcome, obtained: ObtainedGraph, update: str, expected: GraphDocument | None = None
    ) -> bool:
        """Let the comparison pass if the run is to update, and have the text written once the test has passed.

        Refused where this test is about to write another text to the golden: one of the two would be lost.
        """
        is_wanted = settings.wants_update(self._item.config, update)
        golden = self._updated_golden(outcome.golden)
        if not is_wanted or golden in self._attempt.texts or is_expected_to_fail(self._item):
            return False
        text = obtained.new_text if expected is None else obtained.text_after(expected)
        self._attempt.texts[golden], self._attempt.traced_texts[golden] = text, obtained.traced_text
        outcome = replace(outcome, golden=golden, status="updated", new_text=text, update=update)
        self._attempt.outcomes.append(outcome)
        return True

    def _keep_traced_names(self, golden: str, obtained: ObtainedGraph) -> None:
        """Give a golden names as they were traced, for a test that compares one graph at level `exact` as well."""
        attempt = self._attempt
        if attempt.traced_texts.get(golden) != obtained.traced_text:
            return
        text = obtained.traced_text
        if golden in attempt.texts:
            attempt.texts[golden] = text
        for place, outcome in enumerate(attempt.outcomes):
            if outcome.golden == golden and outcome.new_text is not None:
                attempt.outcomes[place] = replace(outcome, new_text=text)
            elif outcome.golden == golden and outcome.received is not None:
                attempt.outcomes[place] = replace(outcome, received=text)

    def _updated_golden(self, golden: str) -> str:
        """Return the file that an update writes: the one that was compared, or the variant if that was asked for."""
        if not self._item.config.getoption("fx_update_variant"):
            return golden
        base = base_path(within_folder(golden, self._item.config))
        return self._shown(variant_path(base, str(torch.__version__)))

    def _received(self, golden: str, obtained: ObtainedGraph, expected: GraphDocument | None = None) -> str | None:
        """Return what an update would write, if it is to be kept beside the golden."""
        if not self._item.config.getoption("fx_received"):
            return None
        self._attempt.traced_texts[golden] = obtained.traced_text
        return obtained.new_text if expected is None else obtained.text_after(expected)


def _words_of_another_level(difference: Difference, expected: GraphDocument) -> str | None:
    """Return what level `exact` misses in a golden of the same graph; None if it is neither names nor all the code."""
    if any(change.field == "name" for change in difference.changes):
        return "only names differ: update once"
    return None if expected.code else "it holds no generated code: update once"


def _decoded(text: str, origin: str) -> GraphDocument:
    from pytest_fxgraph.document.decoding import decode

    return decode(text, origin)
