"""Does a graph do what its model does? Both run on the same inputs, and all that can be seen is compared."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, MethodType
from typing import Any

from torch import nn

import fxcore
from fxcore.state.snapshot import Snapshot, globals_kept
from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.captures.choice import checked_frontend, other_frontends_named, runnable_by
from pytest_fxgraph.captures.subjects import (
    Adapter,
    is_exported_program,
    is_torch_graph_module,
    model_of,
    to_graph_module,
)
from pytest_fxgraph.captures.tracing import trace as trace_model
from pytest_fxgraph.captures.tracing import trace_for_inputs
from pytest_fxgraph.choices import CHECKS, Check, Frontend, Mode, NumberByPath, checks_named
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.exported_call import called_as_module, called_graph, lifted_inputs, refuse_lifted
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.equivalence.outputs import OutputComparison, ValueComparison
from pytest_fxgraph.equivalence.preparation import TrainingFlags, checked_modes, follow_mode, initialized, set_mode
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.search.budget import DEFAULT_SECONDS, SearchBudget, SearchReport
from pytest_fxgraph.equivalence.search.search import search_further
from pytest_fxgraph.equivalence.tolerance import ToleranceRule, nearest
from pytest_fxgraph.errors import ChoiceError

Trace = Callable[[Any], fxcore.GraphModule]


@dataclass(frozen=True)
class CheckOptions:
    """What one call asks of a comparison; None follows what holds for the test."""

    rtol: NumberByPath | None = None
    atol: NumberByPath | None = None
    grads: bool = False
    samples: int = 1
    seed: int | None = None
    fp64_reference: bool | None = None
    sqnr: float | None = None
    cosine: float | None = None
    checks: str | Iterable[str] | None = None
    strict_inputs: bool | None = None
    search: int | None = None  # tries of each search; 0 for none
    search_seconds: float | None = None
    searches: int = 1  # how many this call makes: one for each mode and pass

    def rule(self, test: CheckOptions) -> ToleranceRule:
        """Return the tolerances of a call, or what `test` has where the call says nothing.

        Thresholds of the call take the place of the test's tolerances, and the other way round.
        """
        tolerances, thresholds = (self.rtol, self.atol), (self.sqnr, self.cosine)
        if thresholds == (None, None) and tolerances == (None, None):
            return ToleranceRule.of(test.rtol, test.atol, test.sqnr, test.cosine)
        if thresholds == (None, None):
            return ToleranceRule.of(nearest(self.rtol, test.rtol), nearest(self.atol, test.atol))
        sqnr = test.sqnr if self.sqnr is None else self.sqnr
        return ToleranceRule.of(*tolerances, sqnr, test.cosine if self.cosine is None else self.cosine)

    def chosen_checks(self, test: CheckOptions) -> frozenset[Check]:
        """Return the checks of a call, or else those of the test; raises ChoiceError for a wrong name, and for none.

        With `grads`, gradients are always among them.
        """
        names = test.checks if self.checks is None else self.checks
        chosen = frozenset(CHECKS) if names is None else checks_named(names)
        if not self.grads and chosen <= {"gradients", "requires_grad"}:
            raise ChoiceError(f"checks={tuple(sorted(chosen))!r} compares nothing without grads=True")
        return chosen | {"gradients"} if self.grads else chosen


class CheckDefaults:
    """What holds for every comparison of one test unless a call says otherwise; base of the fixtures that compare."""

    def __init__(
        self,
        *,
        rtol: NumberByPath | None = None,
        atol: NumberByPath | None = None,
        seed: int | None = None,
        sqnr: float | None = None,
        cosine: float | None = None,
        checks: str | Iterable[str] | None = None,
        fp64_reference: bool = False,
        strict_inputs: bool = False,
        compare_outputs: ValueComparison | None = None,
        adapt: Adapter | None = None,
        reproduction: ReproductionFolder | None = None,
        buffer_pool: BufferPool | None = None,
        search: int | None = None,
        search_seconds: float | None = None,
        tell_search: Callable[[str], None] | None = None,
        tells_path: bool = False,
    ) -> None:
        """Set the defaults; a tolerance of None follows the dtype, and `tell_search` is told what searches did.

        With `tells_path`, a mismatch holds what was computed on the way of the error, for reports.
        """
        self._options = CheckOptions(
            rtol, atol, False, 1, seed or 0, fp64_reference, sqnr, cosine, checks, strict_inputs, search, search_seconds
        )
        self._compare_outputs = compare_outputs
        self._adapt = adapt
        self._reproduction = reproduction
        self._buffer_pool = buffer_pool or BufferPool()
        self._tell_search = tell_search
        self._tells_path = tells_path

    def new_check(self, arguments: Arguments, options: CheckOptions) -> EquivalenceCheck:
        """Make the check of one call; raises ChoiceError or ValueError for a wrong option."""
        test = self._options
        fp64_reference = test.fp64_reference if options.fp64_reference is None else options.fp64_reference
        return EquivalenceCheck(
            arguments,
            OutputComparison(options.rule(test), options.grads, self._compare_outputs, options.chosen_checks(test)),
            samples=options.samples,
            seed=(test.seed if options.seed is None else options.seed) or 0,
            grads=options.grads,
            fp64_reference=bool(fp64_reference),
            strict_inputs=bool(test.strict_inputs if options.strict_inputs is None else options.strict_inputs),
            reproduction=self._reproduction,
            search=self._search_budget(options),
            tells_path=self._tells_path,
        )

    def _search_budget(self, options: CheckOptions) -> SearchBudget | None:
        tries = options.search if options.search is not None else self._options.search
        if tries is None or (tries == 0 and tries is not False):
            return None
        seconds = self._options.search_seconds if options.search_seconds is None else options.search_seconds
        seconds = DEFAULT_SECONDS if seconds is None else seconds
        budget = SearchBudget(tries, seconds, options.searches, self._tell_search)
        importlib.import_module("pytest_fxgraph.equivalence.search.strategy")  # says now that hypothesis is missing
        return budget


class FxEquivalence(CheckDefaults):
    """Runs a model eagerly and as a graph on the same inputs and compares: the fixture `fx_equivalence`."""

    def __init__(self, *, trace: Trace | None = None, frontend: str = "symbolic", **defaults: Any) -> None:
        """Take the options of CheckDefaults, and what makes the graph of a model: `trace`, or a frontend."""
        super().__init__(**defaults)
        self._frontend = frontend
        self._trace = trace or (trace_model if self._adapt is None else self._trace_adapted)
        self.searches: tuple[SearchReport, ...] = ()  # what the last call searched through without a find

    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        graph: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        rtol: NumberByPath | None = None,
        atol: NumberByPath | None = None,
        grads: bool = False,
        modes: Mode | Sequence[Mode] = ("eval",),
        samples: int = 1,
        seed: int | None = None,
        fp64_reference: bool | None = None,
        sqnr: float | None = None,
        cosine: float | None = None,
        checks: Check | Iterable[Check] | None = None,
        strict_inputs: bool | None = None,
        search: int | None = None,
        search_seconds: float | None = None,
        frontend: Frontend | None = None,
    ) -> fxcore.GraphModule:
        """Compare a model with its graph in each mode, and return the graph of the first mode.

        Without `graph` the model is traced, once in each mode; an ExportedProgram, or a graph module of torch.fx, is
        compared with its own graph. `inputs` is a tuple of positional arguments or one tensor; with `samples=n`, n - 1
        further inputs of the same shapes are drawn. `rtol` and `atol` are numbers, or numbers by path; `sqnr`
        (decibels) and `cosine` are what whole tensors have to reach instead; `checks` names what is compared, of
        pytest_fxgraph.choices.CHECKS. With `strict_inputs`, an input that the model's results depend on and the graph's
        do not is a mismatch. With `search=n`, n inputs of other sizes, values and layouts are tried in each mode,
        within `search_seconds` (60) in all; it needs hypothesis. `frontend` is "symbolic", "export", "make_fx" or, for
        a model that is one graph, "dynamo". Model, inputs and random generators are restored.

        Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself fails, InputsError
        (a TypeError), ChoiceError or ValueError for wrong options, VacuousCheckError if nothing could fail.
        """
        __tracebackhide__ = True
        wanted = checked_modes(modes)
        searched = (search, search_seconds, len(wanted))
        options = CheckOptions(
            rtol, atol, grads, samples, seed, fp64_reference, sqnr, cosine, checks, strict_inputs, *searched
        )
        check = self.new_check(arguments_of(inputs, kwargs), options)
        chosen = frontend or self._frontend
        self.searches = ()
        model, given = self._subjects(model_of(model, self._adapt), graph, check.arguments)
        checked: list[fxcore.GraphModule] = []
        training = TrainingFlags(model, given)
        with globals_kept():
            try:
                if given is None:
                    checked_frontend(chosen)
                    model = initialized(model, check.arguments, check.seed)
                # A loop, for a comprehension is a frame of its own, which pytest would show above the mismatch.
                for mode in wanted:
                    checked.append(self._check_in_mode(check, model, given, mode, wanted, chosen))
            finally:
                training.restore()
                self.searches = tuple(check.search.reports) if check.search is not None else ()
        return checked[0]

    def _subjects(self, model: Any, graph: Any, arguments: Arguments) -> tuple[Any, fxcore.GraphModule | None]:
        """Return what is run as the model, and the graph that it is compared with; None for one that is to be traced.

        Raises SubjectError for the graph module of an exported program without its program.
        """
        refuse_lifted(model, arguments)
        if graph is not None:
            return called_as_module(model), called_graph(graph, model, arguments, self._adapt)
        if is_exported_program(model):
            return called_as_module(model), to_graph_module(model)
        return called_as_module(model), None

    def _graph_of(self, model: Any, arguments: Arguments, frontend: str) -> fxcore.GraphModule:
        """Trace a model, with the inputs if it cannot be traced without; the check itself compares the two.

        A graph module of torch.fx has a graph already, which train() may rewrite.
        """
        if is_torch_graph_module(model):
            return to_graph_module(model)
        captured = runnable_by(frontend, model, arguments.args, arguments.kwargs, self._adapt)
        if captured is not None:
            return captured
        if self._trace is not trace_model:
            return self._trace(model)
        with other_frontends_named():
            return trace_for_inputs(model, arguments.args, arguments.kwargs, verify=False)

    def _trace_adapted(self, model: Any) -> fxcore.GraphModule:
        """Make the graph as an adapter does; trace the model if no adapter knows it."""
        return to_graph_module(model, self._adapt)

    def _check_in_mode(
        self,
        check: EquivalenceCheck,
        model: Any,
        given: fxcore.GraphModule | None,
        mode: str,
        modes: tuple[str, ...],
        frontend: str,
    ) -> fxcore.GraphModule:
        """Compare in one mode. A trace is made in that mode: functional dropout has its flag written into the graph."""
        __tracebackhide__ = True
        shown = set_mode(model, mode, modes)
        guard = Snapshot(model, buffer_pool=self._buffer_pool)
        graph = given
        try:
            if graph is None:
                graph = self._graph_of(model, check.arguments, frontend)
                # A forward may change buffers while it is traced. Versions suffice: a write that they do not count is
                # found when all is read after the second run, and then both run again.
                guard.restore(trust_versions=True)
            follow_mode(graph, model, shown)
            graph_call = GraphCall(graph, graph)
            check.run(model, graph_call, shown, guard)
            search_further(check, model, graph_call, shown, guard)
        finally:
            guard.release()
        return graph


def check_equivalent(
    model: Any,
    graph: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    subject: str = "graph",
    compare_outputs: ValueComparison | None = None,
    **options: Any,
) -> None:
    """Compare a model with a graph, both in the mode they are in; `subject` is what messages call the graph.

    `options` are those of CheckOptions. Raises MismatchError (an AssertionError) if anything differs, EagerError if the
    model itself fails.
    """
    __tracebackhide__ = True
    defaults = CheckDefaults(compare_outputs=compare_outputs)
    check = replace(defaults.new_check(arguments_of(inputs, kwargs), CheckOptions(**options)), subject=subject)
    refuse_lifted(model, check.arguments)
    runnable = graph if isinstance(graph, (nn.Module, FunctionType, MethodType)) else to_graph_module(graph)
    if lifted_inputs(runnable, check.arguments):
        runnable = called_graph(graph, model, check.arguments)
    check.run(called_as_module(model), GraphCall(runnable, runnable), None)
