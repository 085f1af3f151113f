"""One comparison of a subject with its golden: find the file, write the subject down, compare, keep the outcome."""

from __future__ import annotations

import pytest
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any
import pytest
import torch
from fxcore.gc_pause import gc_paused
from pytest_fxgraph import settings
from pytest_fxgraph.golden.paths import accepting_command
from pytest_fxgraph.capture.shapes import shapes_recorded
from pytest_fxgraph.capture.subjects import to_graph_module, to_readable_graph
from pytest_fxgraph.capture.traced_graph import TracedGraph
from pytest_fxgraph.capture.tracing import traced_again_with_sources
from pytest_fxgraph.golden.collection import has_case_collision
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.document.builder import build_document_of_graph
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.golden.store import GoldenStore
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.golden.location import golden_path
from pytest_fxgraph.golden.files import golden_digest
from pytest_fxgraph.golden.files import base_path, variant_path
from pytest_fxgraph.errors import (
    GoldenError,
    GoldenFormatError,
    GoldenMissingError,
    GoldenNameError,
    GoldenVersionError,
)
from pytest_fxgraph.golden.attempt import GoldenAttempt
from pytest_fxgraph.golden.paths import golden_root, shown, within_folder
from pytest_fxgraph.report.outcome import Outcome


def is_expected_to_fail(item: pytest.Item) -> bool:
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


@dataclass(frozen=True)
class GoldenRequest:
    """What a test asks of one comparison; None where it leaves the answer to marker, options and defaults."""

    name: str | None = None
    level: str | None = None
    example_inputs: Any = None
    example_kwargs: Mapping[str, Any] | None = None
    constants: str | None = None
    commutative: bool | None = None
    normalize: bool | None = None


class GoldenComparison:
    """Compares the subjects of one attempt of one test with its goldens."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt) -> None:
        self._item = item
        self._attempt = attempt
        self._store = GoldenStore(golden_root(item.config))

    def compare(self, subject: object, request: GoldenRequest) -> Exception | None:
        """Compare and keep the outcome; return the error to raise, or None where the test may go on.

        It may go on after a mismatch, too, where an update was asked for: the new text is then written once the test
        has passed.
        """
        self._attempt.compared = True
        level = settings.value_of(settings.LEVEL, self._item, request.level)
        base = self._locate(request.name)
        traced, document, obtained = self._written_down(subject, request)
        path = self._serving(base)
        outcome = Outcome(str(self._item.nodeid), self._shown(path), level, "matched")
        try:
            expected = self._expected(path)
            outcome = replace(outcome, expected_digest=_digest(expected))
            # The ordinary case, which costs no YAML.
            if expected == obtained:
                self._keep(outcome)
                return None
            written = self._decoded(expected, outcome.golden)
        except GoldenMissingError:
            return self._miss(outcome, obtained, document)
        except GoldenError as error:
            return self._refuse(outcome, error, obtained)
        difference = self._difference(written, document, level, request)
        if difference.is_empty:
            self._keep(outcome)
            return None
        if self._promises(outcome, obtained, "changed"):
            return None
        outcome = replace(outcome, received=self._received(obtained))
        told = self._with_sources(traced, obtained, request)
        if told is not None:
            document, difference = told, self._difference(written, told, level, request)
        return self._differ(outcome, difference, written, document)

    # What is compared.

    def _locate(self, name: str | None) -> PurePosixPath:
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
        )

    def _written_down(self, subject: object, request: GoldenRequest) -> tuple[TracedGraph, GraphDocument, str]:
        """Make the text of a subject; of a graph that was only traced for it nothing is left but the way to it."""
        runs_examples = request.example_inputs is not None or request.example_kwargs
        with nullcontext() if runs_examples else gc_paused():
            traced = self._traced(subject, request)
            document = self._document(traced, request)
            obtained = encode(document)
            traced.free()
        return traced, document, obtained

    def _traced(self, subject: object, request: GoldenRequest) -> TracedGraph:
        if request.example_inputs is None and not request.example_kwargs:
            return to_readable_graph(subject, self._adapt)
        graph_module = to_graph_module(subject, self._adapt)
        return TracedGraph(graph_module.graph, graph_module)

    def _document(self, traced: TracedGraph, request: GoldenRequest) -> GraphDocument:
        constants = settings.value_of(settings.CONSTANT_FORM, self._item, request.constants)
        with shapes_recorded(traced.root, request.example_inputs, request.example_kwargs):
            document = build_document_of_graph(
                traced.graph,
                traced.root,
                constants=constants,
                sources=traced.model is None,
                own_name=self._own_names(),
            )
        return self._normalized(document)

    def _with_sources(self, traced: TracedGraph, obtained: str, request: GoldenRequest) -> GraphDocument | None:
        """Write the graph down anew with the lines of the model's source; None where they are there, or cannot be had.

        Nobody reads them where a golden matches, which is why they are not recorded in the first place.
        """
        again = traced_again_with_sources(traced)
        if again is None:
            return None
        document = self._document(again, request)
        return document if encode(document) == obtained else None

    def _adapt(self, subject: object) -> Any:
        return self._item.ihook.pytest_fxgraph_adapt(obj=subject)

    def _own_names(self) -> Callable[[Any], str | None] | None:
        """Return the way to ask the hooks for the name of a function; None, which is faster, where there are none."""
        hook = self._item.ihook.pytest_fxgraph_target_name
        if not hook.get_hookimpls():
            return None
        return lambda target: hook(target=target)

    def _normalized(self, document: GraphDocument) -> GraphDocument:
        """Pass the document through every hook, each reading what the one before it made."""
        for hook in reversed(self._item.ihook.pytest_fxgraph_normalize.get_hookimpls()):
            changed: Any = hook.function(*(document for _ in hook.argnames))
            document = document if changed is None else changed
        return document

    def _serving(self, base: PurePosixPath) -> PurePosixPath:
        """Return the golden that serves the torch that is running: its variant, where there is one, before the base."""
        variant = variant_path(base, str(torch.__version__))
        # A place outside the folder is refused where it is read.
        with suppress(GoldenNameError):
            if self._shown(variant) in self._attempt.texts or self._store.exists(variant):
                return variant
        return base

    def _expected(self, path: PurePosixPath) -> str:
        """Return the text to compare with: what this very test is about to write, else the golden's."""
        pending = self._attempt.texts.get(self._shown(path))
        return self._store.read(path) if pending is None else pending

    # What follows is imported where it is first needed: a run in which every golden matches never parses YAML.

    def _decoded(self, text: str, origin: str) -> GraphDocument:
        from pytest_fxgraph.document.decoding import decode

        return decode(text, origin)

    def _shown(self, path: PurePosixPath) -> str:
        return shown(path, self._item.config)

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

    # What comes of it.

    def _keep(self, outcome: Outcome) -> None:
        self._attempt.outcomes.append(outcome)

    def _miss(self, outcome: Outcome, obtained: str, document: GraphDocument) -> Exception | None:
        if self._promises(outcome, obtained, "new"):
            return None
        from pytest_fxgraph.report.text import graph_section

        section = graph_section(document, golden=outcome.golden)
        self._attempt.sections.append((f"fx golden {outcome.golden}", section))
        lines = (f"there is no golden {outcome.golden}", f"look at the graph below, then write it: {self._command()}")
        outcome = replace(outcome, status="missing", headline=lines[0], lines=lines, section=section)
        self._keep(replace(outcome, received=self._received(obtained)))
        return GoldenMissingError("\n".join(lines))

    def _refuse(self, outcome: Outcome, error: GoldenError, obtained: str) -> Exception | None:
        # What a newer release wrote is no accident; anything else that cannot be read no longer matches anything.
        is_ruined = isinstance(error, GoldenFormatError) and not isinstance(error, GoldenVersionError)
        if is_ruined and self._promises(outcome, obtained, "changed"):
            return None
        words = str(error)
        received = self._received(obtained) if is_ruined else None
        if received is not None:
            outcome = replace(outcome, expected_digest=self._digest_of_ruin(outcome))
        self._keep(replace(outcome, status="error", headline=words, lines=(words,), received=received))
        return error

    def _digest_of_ruin(self, outcome: Outcome) -> str | None:
        try:
            return self._store.digest(within_folder(outcome.golden, self._item.config))
        except GoldenError:
            return None  # no file, or none that could be replaced

    def _differ(
        self, outcome: Outcome, difference: Difference, expected: GraphDocument, obtained: GraphDocument
    ) -> Exception:
        from pytest_fxgraph.report.text import headline
        from pytest_fxgraph.report.text import full_section, short_lines

        command = self._command()
        lines = tuple(short_lines(difference, golden=outcome.golden, command=command))
        section = full_section(difference, expected, obtained, golden=outcome.golden, command=command)
        self._attempt.sections.append((f"fx golden {outcome.golden}", section))
        self._keep(replace(outcome, status="mismatch", headline=headline(difference), lines=lines, section=section))
        return AssertionError("\n".join(lines))

    def _promises(self, outcome: Outcome, obtained: str, update: str) -> bool:
        """Let the comparison pass if the run is to update, and have the text written once the test has passed.

        Refused where this test has promised the golden another text already: one of the two would be lost.
        """
        is_wanted = settings.wants_update(self._item.config, update)
        outcome = replace(outcome, golden=self._written_to(outcome.golden))
        if not is_wanted or outcome.golden in self._attempt.texts or is_expected_to_fail(self._item):
            return False
        self._attempt.texts[outcome.golden] = obtained
        self._keep(replace(outcome, status="updated", new_text=obtained, update=update))
        return True

    def _written_to(self, golden: str) -> str:
        """Return the file that an update writes: the one that was compared, or the variant if that was asked for."""
        if not self._item.config.getoption("fx_update_variant"):
            return golden
        base = base_path(within_folder(golden, self._item.config))
        return self._shown(variant_path(base, str(torch.__version__)))

    def _received(self, obtained: str) -> str | None:
        return obtained if self._item.config.getoption("fx_received") else None

    def _command(self) -> str:
        return accepting_command(self._item)


def _digest(text: str) -> str:
    return golden_digest(text.encode("utf-8", "surrogatepass"))
