"""The fixture `fx_transform`: a transform keeps the results of a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fxcore.errors import FxError
from fxcore.state.snapshot import Snapshot, globals_kept
from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.arguments import Promise, Trace, promises_named, shows_options
from pytest_fxgraph.captures.subjects import model_of
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.equivalence.change_words import words_of
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.exported_call import called_as_module
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import with_line
from pytest_fxgraph.equivalence.options import CALL_DEFAULTS, DEFAULTS, CheckDefaults, CheckOptions
from pytest_fxgraph.equivalence.preparation import checked_modes, follow_mode, initialized, set_mode, training_kept
from pytest_fxgraph.equivalence.search.search import SearchBudget, search_further
from pytest_fxgraph.errors import GateError, MismatchError
from pytest_fxgraph.operator_patterns import OwnName
from pytest_fxgraph.report.text import headline
from pytest_fxgraph.transform.given_graphs import GivenGraphs, SubjectSnapshot
from pytest_fxgraph.transform.graph_checks import refuse_violation
from pytest_fxgraph.transform.pass_subject import PassSubject, copied, with_own_graph
from pytest_fxgraph.transform.passes import Applied, apply_step, steps_of
from pytest_fxgraph.transform.program_sets import graphs_in, program_at
from pytest_fxgraph.transform.result import TransformResult, documents_of
from pytest_fxgraph.transform.run_promises import check_recorded_values, check_refusals
from pytest_fxgraph.vacuity import vacuous_error, vacuous_examples_rejected

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TransformOptions(CheckOptions, total=False):
    """Options of `fx_transform` and `check_transform`: the options of every check, and the rules for the transform."""

    inplace: bool
    idempotent: bool
    concrete_args: dict[str, Any] | None
    keeps_meta: tuple[str, ...] | bool
    may_change: tuple[Promise, ...] | Promise
    check_modified: bool
    trace: Trace | None


_OWN_DEFAULTS: dict[str, object] = {
    "inplace": False,
    "idempotent": False,
    "keeps_meta": False,
    "may_change": (),
    "check_modified": True,
}


def _with_edits(error: MismatchError, before: Any, after: Any) -> MismatchError:
    """Name the edits of the transforms beside the numbers, where both graphs can be compared."""
    try:
        difference = TransformResult(before, after, ()).difference
    except (FxError, GateError):
        return error
    return error if difference.is_empty else with_line(error, f"edits so far: {headline(difference)}")


class FxTransform(CheckDefaults):
    """Traces a model, transforms the graph, checks it, and compares it with the model run eagerly."""

    defaults: ClassVar[Mapping[str, object]] = {**DEFAULTS, **_OWN_DEFAULTS, "concrete_args": None, "trace": None}

    def __init__(self, *, own_name: OwnName | None = None, **options: Any) -> None:
        """Take the options of CheckDefaults; `own_name` is asked first for the names of functions."""
        super().__init__(**options)
        self._own_name = own_name

    @shows_options(TransformOptions, **CALL_DEFAULTS, **_OWN_DEFAULTS)
    def __call__(
        self,
        transform: Any,
        model: Any,
        inputs: Any,
        *,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[TransformOptions],
    ) -> TransformResult:
        """Check a transform, or the transforms of a list one after the other, and return the graphs before and after.

        A transform is a function of a GraphModule, a Transformer or Interpreter class, or a pass. In each mode the
        model is traced and transformed again; the result of the first mode is returned. `trace` names the tracer:
        "fxcore" (the default), "torch" (torch.fx.symbolic_trace) or "export" (torch.export.export). A model that is a
        graph already, such as a torch.fx.GraphModule or an ExportedProgram, is not traced: the transform gets a copy of
        it. A pass of torch._inductor gets the fake mode of the graph's `val` and the arguments that it names.
        Without `inplace` the transform must leave the model as it was; with `idempotent`, a second application must
        change nothing. With `keeps_meta`, nodes that keep their name must keep all entries of their meta, or the named
        entries. With `search=n`, n other inputs are tried in each mode after each transform, as by `fx_equivalence`.

        A transform also keeps its promises, except for the named promises in `may_change`: "ranges" and "signature" of
        an exported program, "val" (the recorded metadata of values is as a run shows it), "refusals" (inputs that
        guards and assertions refuse are refused after), "hooks" (of modules, with patched forwards), and "collectives"
        (each group's in their order, all of them, and read after the wait). A pass that
        returns `modified=False` must change nothing, unless `check_modified=False`.

        Raises AssertionError, naming the transform, if it breaks one of these rules, leaves a malformed graph, or if
        the results differ (MismatchError); EagerError if the model itself fails; SubjectError if `transform` is no
        transform; VacuousCheckError if no transform changed or rebuilt the graph, unless `allow_vacuous` is True.
        """
        __tracebackhide__ = True
        chosen = self.chosen(options)
        modes = checked_modes(options.get("modes", self.defaults["modes"]))
        subject = PassSubject.of(
            model_of(model, self._adapt), chosen["trace"], chosen["concrete_args"], chosen["inplace"]
        )
        arguments = subject.arguments_by_program(inputs, kwargs)
        check = self.new_check(next(iter(arguments.values())), options)
        budget = self.search_budget(options, len(modes) * len(steps_of(transform)))
        rules = {name: chosen[name] for name in ("inplace", "idempotent", "keeps_meta", "check_modified")}
        may_change = promises_named(chosen["may_change"])
        run = _TransformRun(
            transform, check, budget, arguments, modes, self._buffer_pool, may_change=may_change, **rules
        )
        result = run.in_modes(subject)
        return replace(result, own_name=self._own_name, searches=tuple(budget.reports) if budget is not None else ())


@dataclass(frozen=True)
class _TransformRun:
    """One transform with its check and its rules."""

    transform: Any
    check: EquivalenceCheck
    budget: SearchBudget | None
    arguments: dict[str, Arguments]  # by compared program; "" stands for a subject that is one graph
    modes: tuple[str, ...]
    buffer_pool: BufferPool
    inplace: bool
    idempotent: bool
    keeps_meta: tuple[str, ...] | bool
    check_modified: bool
    may_change: frozenset[Promise]

    def in_modes(self, subject: PassSubject) -> TransformResult:
        """Trace, transform and compare in each mode; return the result of the first."""
        __tracebackhide__ = True
        results: list[TransformResult] = []
        with globals_kept(), vacuous_examples_rejected(), training_kept(subject.model):
            subject = replace(subject, model=initialized(subject.model, self.check.arguments, self.check.seed))
            # A comprehension would be a frame of its own, and pytest would show the frame above the mismatch.
            for mode in self.modes:
                results.append(self.in_mode(subject, mode))
        # The graphs go back to the model's own mode, because this check and a test compare them.
        for graph in [graph for result in results for graph in (result.before, result.after)]:
            follow_mode(graph, subject.model, "train" if getattr(subject.model, "training", False) else "eval")
        if not self.check.allow_vacuous:
            self._refuse_vacuous(results)
        return results[0]

    def _refuse_vacuous(self, results: list[TransformResult]) -> None:
        __tracebackhide__ = True
        check = f"checking {', '.join(results[0].passes)}"
        if not any(result.is_changed for result in results):
            raise vacuous_error(
                check,
                "the graph is as it was, and the model was compared with its own graph",
                "Give a model that the transform changes",
            )
        if isinstance(self.keeps_meta, tuple):
            graphs = [graph for side in (results[0].before, results[0].after) for graph in graphs_in(side)]
            known = {entry for graph in graphs for node in graph.nodes for entry in node.meta}
            unknown = [entry for entry in self.keeps_meta if entry not in known]
            if unknown:
                raise vacuous_error(
                    f"{check} with keeps_meta={self.keeps_meta!r}",
                    f"no node has the metadata {unknown[0]!r}",
                    f"Name metadata of the nodes: {', '.join(sorted(map(str, known))) or 'the graph has none'}",
                )

    def in_mode(self, subject: PassSubject, mode: str) -> TransformResult:
        """Trace, transform and compare in one mode; raises AssertionError, as FxTransform does."""
        __tracebackhide__ = True
        shown = set_mode(subject.model, mode, self.modes)
        reference = subject.reference()
        called = {name: called_as_module(program_at(reference, name)) for name in self.arguments}
        for module in called.values():
            shown = set_mode(module, mode, self.modes)
        with closing(Snapshot(*called.values(), buffer_pool=self.buffer_pool)) as guard:
            return self._in_mode(subject, reference, called, shown, guard)

    def _in_mode(
        self, subject: PassSubject, reference: Any, called: dict[str, Any], mode: str | None, guard: Snapshot
    ) -> TransformResult:
        __tracebackhide__ = True
        before, given = subject.graphs(reference, self.check.arguments)
        guard.restore()
        steps = steps_of(self.transform)
        applied, is_rebuilt, graphs = Applied(given), False, graphs_in(given)
        for number, (name, step) in enumerate(steps, start=1):
            what = f"graph after {name}" if len(steps) == 1 else f"graph after pass {number} ({name})"
            applied, given_graphs = self._step(step, name, applied.made, subject, called)
            for program, module in called.items():
                graph_call = applied.graph_call(program_at(applied.made, program))
                follow_mode(graph_call.graph, module, mode)
                follow_mode(graph_call.readable, module, mode)
                told = what + (f", program {program!r}," if program else "")
                check = replace(self.check, subject=told, arguments=self.arguments[program])
                try:
                    check.run(module, graph_call, mode, guard)
                    search_further(self.budget, check, module, graph_call, mode, guard)
                except MismatchError as error:
                    raise _with_edits(error, before, applied.made) from error.__cause__
                if applied.has_own_graph:
                    given_graphs.check_promises(program, name, self.may_change)
                    called_before = module if subject.is_graph else before
                    self._check_runs(name, called_before, graph_call, self.arguments[program], guard)
            is_rebuilt = is_rebuilt or applied.call is not None
            if self.idempotent:
                self._check_idempotent(step, name, applied.made, subject, called)
        is_rebuilt = is_rebuilt or any(graph not in graphs for graph in graphs_in(applied.made))
        return TransformResult(before, applied.made, tuple(name for name, _ in steps), _is_rebuilt=is_rebuilt)

    def _step(
        self, step: Any, name: str, given: Any, subject: PassSubject, called: dict[str, Any]
    ) -> tuple[Applied, GivenGraphs]:
        """Apply one transform and check that the graph is well-formed and the model unchanged."""
        __tracebackhide__ = True
        before = GivenGraphs(given, self.buffer_pool, check_modified=self.check_modified)
        snapshot = SubjectSnapshot(subject.model, called.values(), self.arguments.values(), inplace=self.inplace)
        with globals_kept(generators=False) as settings:
            try:
                applied = apply_step(step, given, subject.form)
            except BaseException as error:
                snapshot.restore()
                refuse_violation(error, name)
                raise
            left = words_of(settings.changed_readings())
        if left:
            told = ", ".join(left)
            raise AssertionError(
                f"{name} changed what torch keeps for the whole process, and left it so: {told}; it was put back. "
                "Set it in a with block, or restore it before the pass returns"
            )
        snapshot.check(name)
        before.check(applied, name, keeps_meta=self.keeps_meta)
        return applied, before

    def _check_runs(self, name: str, before: Any, made: GraphCall, arguments: Arguments, guard: Snapshot) -> None:
        """Check the promises that only runs show: recorded metadata, and refused inputs."""
        __tracebackhide__ = True
        if "val" not in self.may_change:
            check_recorded_values(name, before, made.readable or made.graph, arguments, guard)
        if "refusals" not in self.may_change:
            check_refusals(name, before, made.call, arguments, guard)

    def _check_idempotent(self, step: Any, name: str, once: Any, subject: PassSubject, called: dict[str, Any]) -> None:
        __tracebackhide__ = True
        first = documents_of(once)
        again = copied(once) if subject.is_graph else with_own_graph(once)
        second = documents_of(self._step(step, name, again, subject, called)[0].made)
        for program, document in first.items():
            difference = compare_documents(document, second[program])
            if not difference.is_empty:
                change = difference.changes[0]
                raise AssertionError(
                    f"{name} is not idempotent: applied twice it gives another graph than applied once; "
                    f"{len(difference.changes)} differences, the first: {change.subject} {change.where} {change.action}"
                )
