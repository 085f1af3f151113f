"""What a test handed over, written down as its golden would be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_fxgraph import settings
from pytest_fxgraph.captures.choice import captured_by, other_frontends_named
from pytest_fxgraph.captures.costs import with_costs
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import to_graph_module, to_readable_graph
from pytest_fxgraph.captures.tracing import TracedGraph, traced_again_with_sources
from pytest_fxgraph.document.builder import build_document_of_graph
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.level_facts import recorded_at, without_code
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.node_names import differs_in_names_at_most
from pytest_fxgraph.goldens.program_set import PROGRAM_NOTE


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
    meta: Sequence[str] = ()
    program: str | None = None  # which of several programs the subject is, and the place of the set among the goldens
    position: int | None = None
    code: str | None = None
    budget: Mapping[str, Any] | None = None
    frontend: str | None = None

    @property
    def runs_examples(self) -> bool:
        """Tell whether the graph is to be run on inputs, for the shapes of its values."""
        return self.example_inputs is not None or bool(self.example_kwargs)


class ObtainedGraph:
    """The document of a subject, and the texts that its golden may get.

    Code is generated when something needs it, which at a level other than `exact` is a text alone: the document is
    without. `free` ends the use.
    """

    def __init__(self, subject: object, request: GoldenRequest, item: pytest.Item, level: str) -> None:
        self._request = request
        self._item = item
        self._level = level
        self._is_exact = level == "exact"
        self._code = settings.value_of(settings.CODE, item, request.code)
        self._normalizers = item.ihook.pytest_fxgraph_normalize.get_hookimpls()
        self._graphs: Graphs = {}
        frontend = settings.value_of(settings.FRONTEND, item, request.frontend)
        captured = captured_by(frontend, subject, request.example_inputs, request.example_kwargs, self._adapt)
        if captured is not None:  # what a frontend captured knows its values
            subject, request = captured, replace(request, example_inputs=None, example_kwargs=None)
            self._request = request
        with other_frontends_named():
            if request.runs_examples:
                graph_module = to_graph_module(
                    subject,
                    self._adapt,
                    example_inputs=request.example_inputs,
                    example_kwargs=request.example_kwargs,
                )
                self._traced = TracedGraph(graph_module.graph, graph_module)
            else:
                self._traced = to_readable_graph(subject, self._adapt)
            self.document = self._document(self._traced, self._graphs)

    def free(self) -> None:
        """Free the memory of a graph that was traced for this, and of its document; nothing can be read any more."""
        self._graphs.clear()
        self._traced.free()
        vars(self).clear()

    def matches(self, text: str) -> bool:
        """Tell, without reading YAML, that a golden's text matches; False means that nothing is known."""
        if self._is_exact:
            return text == self.traced_text or text == encode(self._with_code)
        return self.differs_in_names_at_most(text)

    def differs_in_names_at_most(self, text: str) -> bool:
        """Tell, without reading YAML, that a golden's text holds this graph, whatever its nodes are named."""
        return differs_in_names_at_most(text, recorded_at(self.document, self._level))

    @functools.cached_property
    def traced_text(self) -> str:
        """The text of a golden that is compared at level `exact`."""
        return encode(replace(self._with_code, keeps_traced_names=True))

    @functools.cached_property
    def new_text(self) -> str:
        """The text of a golden where there is none that can be read."""
        return self.traced_text if self._is_exact else encode(self._complete, folds_code=self._folds_code)

    def text_after(self, golden: GraphDocument) -> str:
        """Return the text that replaces a golden: with its names, unless it keeps those that tracing gave."""
        from pytest_fxgraph.goldens.kept_names import document_after

        return encode(document_after(golden, self._complete, self._graphs, self._level), folds_code=self._folds_code)

    @property
    def inline_document(self) -> GraphDocument:
        """The document as an inline golden holds it: the code is there where the level compares it."""
        return self._with_code if self._is_exact else recorded_at(without_code(self.document), self._level)

    def inline_document_after(self, golden: GraphDocument) -> GraphDocument:
        """Return the document that replaces an inline golden, with its names, unless the level compares them."""
        from pytest_fxgraph.goldens.kept_names import document_after

        return document_after(golden, self.inline_document, self._graphs, self._level)

    @functools.cached_property
    def _with_code(self) -> GraphDocument:
        # Normalized, it has code, which may be the hook's.
        return self.document if self._is_exact or self._normalizers else with_code(self.document, self._graphs)

    @property
    def _folds_code(self) -> bool:
        return bool(self._code == "folded")

    @property
    def _complete(self) -> GraphDocument:
        """The document with what a golden is to hold."""
        has_code = self._is_exact or self._code != "exact"
        return recorded_at(self._with_code if has_code else without_code(self.document), self._level)

    def with_sources(self) -> GraphDocument | None:
        """Return the document with the lines of the model's source; None if they are there, or cannot be had.

        Nobody reads them where a golden matches, which is why they are not recorded in the first place.
        """
        again = traced_again_with_sources(self._traced)
        if again is None:
            return None
        document = self._document(again, {})
        return document if encode(document) == encode(self.document) else None

    def _document(self, traced: TracedGraph, graphs: Graphs) -> GraphDocument:
        request = self._request
        with shapes_recorded(traced.root, request.example_inputs, request.example_kwargs):
            document = build_document_of_graph(
                traced.graph,
                traced.root,
                constants=settings.value_of(settings.CONSTANT_FORM, self._item, request.constants),
                sources=traced.model is None,
                own_name=self._own_names(),
                meta=request.meta,
                graphs=graphs,
            )
        if self._level == "cost":
            document = with_costs(document, traced.root, traced.graph, request.example_inputs, request.example_kwargs)
        if request.program is not None:
            document = replace(document, notes=(*document.notes, PROGRAM_NOTE + request.program))
        if self._is_exact or self._normalizers:
            document = with_code(document, graphs)
        return self._normalized(document)

    def _adapt(self, subject: object) -> Any:
        return self._item.ihook.pytest_fxgraph_adapt(obj=subject)

    def _own_names(self) -> Callable[[Any], str | None] | None:
        """Return the way to ask the hooks for the name of a function; None, which is faster, where there are none."""
        hook = self._item.ihook.pytest_fxgraph_target_name
        return (lambda target: hook(target=target)) if hook.get_hookimpls() else None

    def _normalized(self, document: GraphDocument) -> GraphDocument:
        """Pass the document through every hook, each reading what the one before it made."""
        for hook in reversed(self._normalizers):
            changed: Any = hook.function(*(document for _ in hook.argnames))
            document = document if changed is None else changed
        return document
