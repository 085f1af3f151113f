"""The obtained graph of a comparison: a subject, written down as its golden would be."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

import pytest
import torch

from pytest_fxgraph import settings
from pytest_fxgraph.budget import Budget
from pytest_fxgraph.captures.choice import captured_by
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import Adapter, to_graph_module, to_readable_graph
from pytest_fxgraph.captures.tracing import TracedGraph, traced_again_with_sources
from pytest_fxgraph.choices import CodeForm, ConstantForm, Frontend, Level
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.capture_notes import refuse_without_breaks, refuse_without_kernels, without_kernels
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.model import GraphDocument, recorded_at, without_code, without_computed_contents
from pytest_fxgraph.document.node_names import differs_in_names_at_most
from pytest_fxgraph.errors import DocumentError
from pytest_fxgraph.goldens.program_set import PROGRAM_NOTE
from pytest_fxgraph.report.outcome import Terms, Told

if TYPE_CHECKING:
    from pytest_fxgraph.compare.difference import Difference

# Modules that only a mismatch needs are imported where it is found: a run of matching goldens never parses YAML.


class GraphOptions(TypedDict, total=False):
    """The options of every comparison of a graph. An option that is missing or None follows the marker and the run."""

    level: Level | None
    example_inputs: object
    example_kwargs: Mapping[str, Any] | None
    constants: ConstantForm | None
    commutative: bool | None
    normalize: bool | None
    meta: Sequence[str]
    budget: Budget | None
    frontend: Frontend | None


class GoldenOptions(GraphOptions, total=False):
    """The options of a comparison with a golden file."""

    name: str | None
    code: CodeForm | None


def runs_examples(options: GraphOptions) -> bool:
    """Return whether the graph runs on inputs, for the shapes of its values."""
    return options.get("example_inputs") is not None or bool(options.get("example_kwargs"))


def options_in_test(options: GraphOptions, item: pytest.Item) -> tuple[GoldenOptions, Terms]:
    """Return the options and terms that hold in a test, with the values of its marker and of the run."""
    values = settings.values_of((*settings.TERMS, *settings.OF_GRAPHS), item, options)
    terms = Terms(**{setting.name: values.pop(setting.name) for setting in settings.TERMS})
    return cast(GoldenOptions, {**options, **values}), terms


class Hooks(NamedTuple):
    """The user's hooks that take part in a comparison. A function of the package has no hooks."""

    adapt: Adapter | None = None
    own_name: Callable[[Any], str | None] | None = None
    normalizers: Sequence[Any] = ()  # implementations of pytest_fxgraph_normalize, the last one first

    @classmethod
    def of_test(cls, item: pytest.Item) -> Hooks:
        """Return the hooks that hold for a test. Because a call of pluggy is slow, a hook nobody implements is None."""
        adapt, own_name = item.ihook.pytest_fxgraph_adapt, item.ihook.pytest_fxgraph_target_name
        return cls(
            (lambda subject: adapt(obj=subject)) if adapt.get_hookimpls() else None,
            (lambda target: own_name(target=target)) if own_name.get_hookimpls() else None,
            item.ihook.pytest_fxgraph_normalize.get_hookimpls()[::-1],
        )


class ObtainedGraph:
    """The document of a subject, and the texts that its golden file may get.

    Code is generated when a text or level `exact` needs it: at other levels the document has no code. Call `free` after
    the last use.
    """

    def __init__(
        self, subject: object, options: GoldenOptions, terms: Terms, hooks: Hooks, program: str | None = None
    ) -> None:
        self.terms = terms
        self._hooks = hooks
        self._program = program
        self._is_exact = terms.level == "exact"
        self._graphs: Graphs = {}
        self._difference: Difference | None = None  # the last one
        self._code, self._meta = options.get("code"), options.get("meta") or ()
        self._inputs, self._kwargs = inputs, kwargs = options.get("example_inputs"), options.get("example_kwargs")
        frontend = options.get("frontend") or "symbolic"
        with captured_by(frontend, subject, inputs, kwargs, hooks.adapt) as given:
            if given is not subject:  # a captured graph knows its values
                self._inputs, self._kwargs = None, None
            self._traced = self._graph_of(given)
            self.document = self._document(self._traced, self._graphs)

    def free(self) -> None:
        """Free the memory of the graph and of its document; no method may be called afterwards."""
        self._graphs.clear()
        self._traced.free()
        vars(self).clear()

    # Compared with a golden.

    def matches(self, text: str) -> bool:
        """Return whether the text of a golden matches, without reading YAML. False means that nothing is known."""
        if self._is_exact:
            return text == self.traced_text or text == encode(self._with_code)
        # A golden of level cost or breaks holds less than the document. Its text is short, and is read in full.
        if differs_in_names_at_most(text, self.document):
            return True
        older = without_computed_contents(self.document)
        return older != self.document and differs_in_names_at_most(text, older)

    def read(self, text: str, origin: str) -> GraphDocument:
        """Read the text of a golden. Raises GoldenFormatError if that fails, naming `origin`."""
        from pytest_fxgraph.document.decoding import decode

        return decode(text, origin)

    def differs_from(self, golden: GraphDocument) -> bool:
        """Return whether the graph differs from a golden at the level of the comparison."""
        self._difference = self._compared(golden, self.document)
        return not self._difference.is_empty

    def told(
        self, golden: GraphDocument, shown: str, command: str, *, is_alone: bool, is_drawn: bool, has_variants: bool
    ) -> Told:
        """Describe the difference from a golden that `differs_from` found. `command` accepts the graph, "" if none can.

        Trace the model once more, for the lines of its source. The comparison itself has none, because nobody reads
        them where a golden matches.
        """
        from pytest_fxgraph.report.change_data import change_data, edit_data
        from pytest_fxgraph.report.clusters import cluster_key
        from pytest_fxgraph.report.text import full_section, headline, other_torch_remark, short_lines

        difference = self._difference or self._compared(golden, self.document)
        document = self._with_sources()
        if document is None:
            document = self.document
        else:
            difference = self._compared(golden, document)
        cluster = cluster_key(difference, shown)
        remark = other_torch_remark(difference, str(torch.__version__), command) if has_variants else None
        section = full_section(difference, golden, document, golden=shown, command=command, is_alone=is_alone)
        return Told(
            headline(difference),
            tuple(short_lines(difference, golden=shown, command=command, is_alone=is_alone, remark=remark)),
            f"{section}\n{remark}" if remark else section,
            cluster,
            change_data(difference, cluster),
            edit_data(difference),
            (encode(golden), encode(self._document_after(golden))) if is_drawn else (),
            tuple(node.source or "" for node in document.nodes) if is_drawn else (),
        )

    def another_level(self, text: str, golden: GraphDocument) -> str | None:
        """Name the facts that level `exact` misses in a golden of the same graph; None unless names or code suffice.

        Another level wrote such a golden.
        """
        if not self._is_exact or not differs_in_names_at_most(text, self.document):
            return None
        difference = self._difference or self._compared(golden, self.document)
        if any(change.field == "name" for change in difference.changes):
            return "only names differ: update once"
        return None if golden.code else "it holds no generated code: update once"

    # Texts of the golden.

    @functools.cached_property
    def new_text(self) -> str:
        """The text of a golden where no golden can be read."""
        return self.traced_text if self._is_exact else self._written(self._complete)

    @functools.cached_property
    def traced_text(self) -> str:
        """The text of a golden that is compared at level `exact`."""
        return encode(replace(self._with_code, keeps_traced_names=True))

    def text_after(self, golden: GraphDocument) -> str:
        """Return the text that replaces a golden. It has the golden's names, unless the golden keeps traced names."""
        return self._written(self._document_after(golden))

    def section(self, shown: str) -> str:
        """Return the graph for a report section, where nobody has seen it yet."""
        from pytest_fxgraph.report.graph_summary import summary_section

        return summary_section(self.document, golden=shown)

    def picture(self) -> tuple[str, ...]:
        """Return the graph as reports draw it."""
        return (encode(self._complete),)

    def _written(self, document: GraphDocument) -> str:
        return encode(document, folds_code=self._code in (None, "folded"))

    def _document_after(self, golden: GraphDocument) -> GraphDocument:
        from pytest_fxgraph.goldens.kept_names import document_after

        return document_after(golden, self._complete, self._graphs, self.terms.level)

    @functools.cached_property
    def _with_code(self) -> GraphDocument:
        # A normalized document has code already, and a hook may have changed it.
        has_code = self._is_exact or self._hooks.normalizers
        return self.document if has_code else with_code(self.document, self._graphs)

    @property
    def _complete(self) -> GraphDocument:
        """The document with everything that a golden is to hold."""
        holds_code = self._is_exact or self._code != "exact"
        return recorded_at(self._with_code if holds_code else without_code(self.document), self.terms.level)

    # Documents.

    def _graph_of(self, subject: object) -> TracedGraph:
        if not self._has_example:
            return to_readable_graph(subject, self._hooks.adapt)
        module = to_graph_module(subject, self._hooks.adapt, example_inputs=self._inputs, example_kwargs=self._kwargs)
        return TracedGraph(module.graph, module)

    @property
    def _has_example(self) -> bool:
        return self._inputs is not None or bool(self._kwargs)

    def _compared(self, golden: GraphDocument, document: GraphDocument) -> Difference:
        from pytest_fxgraph.compare.levels import compare_documents

        return compare_documents(golden, document, **self.terms._asdict())

    def _with_sources(self) -> GraphDocument | None:
        """Return the document with lines of the model's source; None if it has them already, or they cannot be had."""
        again = traced_again_with_sources(self._traced)
        if again is None:
            return None
        document = self._document(again, {})
        return document if encode(document) == encode(self.document) else None

    def _document(self, traced: TracedGraph, graphs: Graphs) -> GraphDocument:
        is_run = self._has_example
        with shapes_recorded(traced.root, self._inputs, self._kwargs) if is_run else contextlib.nullcontext():
            document = build_document(
                traced.root,
                graph=traced.graph,
                constants=self.terms.constants,
                sources=traced.model is None,
                own_name=self._hooks.own_name,
                meta=self._meta,
                graphs=graphs,
            )
        if self.terms.level == "breaks":
            refuse_without_breaks(document)
        if self.terms.level == "kernels":
            refuse_without_kernels(document)
        elif document.notes:
            document = without_kernels(document)
        if self.terms.level == "cost":
            from pytest_fxgraph.captures.costs import with_costs

            document = with_costs(document, traced.root, traced.graph, self._inputs, self._kwargs)
        if self._program is not None:
            document = replace(document, notes=(*document.notes, PROGRAM_NOTE + self._program))
        if self._is_exact or self._hooks.normalizers:
            document = with_code(document, graphs)
        for hook in self._hooks.normalizers:  # each reads what the one before it returned
            changed: Any = hook.function(*(document for _ in hook.argnames))
            if not isinstance(changed, GraphDocument | None):
                raise DocumentError(f"pytest_fxgraph_normalize gave {changed!r:.80}; expected a GraphDocument, or None")
            document = document if changed is None else changed
        return document
