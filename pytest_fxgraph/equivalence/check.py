"""One check of a graph against its model: both run on each sample, and each difference is a mismatch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

import fxcore
from fxcore.lazy_forward import may_be_outdated
from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.captures.subjects import is_torch_graph_module
from pytest_fxgraph.captures.train_step import steps_of
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.bisection import notes_on_mismatch
from pytest_fxgraph.equivalence.fp64_reference import DoubleJudge, compared_tensors
from pytest_fxgraph.equivalence.gradients import rules_of_gradients
from pytest_fxgraph.equivalence.input_use import unread_inputs
from pytest_fxgraph.equivalence.inputs import Arguments, fresh_sample
from pytest_fxgraph.equivalence.kept_state import may_keep_state
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.nested_values import walk
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.run_differences import differences_of_runs
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.state_pairs import paired_paths, with_names
from pytest_fxgraph.equivalence.tolerance import OUTPUT
from pytest_fxgraph.equivalence.vacuous_values import could_fail, vacuous_values_error
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError, UncomparableError, VacuousCheckError
from pytest_fxgraph.report.numeric_failure import PathStep
from pytest_fxgraph.report.printable import listed

_PATHS_TOLD = 12

# The runs of eager and graph, and their mismatches. If one run failed, there are no mismatches.
_Comparison = tuple["RunResult | RunFailure", "RunResult | RunFailure", list[Mismatch]]


def code_is_stale(graph_module: Any) -> bool:
    """Return whether the graph was changed after the last recompile(), so that forward runs older code."""
    if not isinstance(graph_module, fxcore.GraphModule) and not is_torch_graph_module(graph_module):
        return False
    if isinstance(graph_module, fxcore.GraphModule) and not may_be_outdated(graph_module):
        return False  # writing the code again takes as long as a forward of a small model
    return bool(graph_module.graph.python_code("self").src.strip() != graph_module.code.strip())


_STALE = Mismatch(
    "code",
    "the generated code",
    "is older than the graph, so that forward runs something else than what the graph shows: "
    "call recompile() after changing the graph",
)


@dataclasses.dataclass(frozen=True)
class GraphCall:
    """The function that runs a graph, and the object that holds its state; both are the graph module in most cases."""

    graph: Any
    call: Callable[..., Any]
    readable: fxcore.GraphModule | None = None  # the same graph as one of fxcore, if `graph` is another library's

    def shown(self) -> GraphCall:
        """Return the call for explanations and scripts: the graph of fxcore, if there is one."""
        if self.readable is None or self.call is not self.graph:
            return self
        return GraphCall(self.readable, self.readable)


@dataclasses.dataclass(frozen=True)
class EquivalenceCheck:
    """The arguments and the rules of one check. Raises ChoiceError if `samples` is no whole number of at least 1."""

    arguments: Arguments
    comparison: OutputComparison
    samples: int
    seed: int
    grads: bool
    subject: str = "graph"  # the graph's name in messages
    strict_inputs: bool = False  # an input that eager reads and the graph does not read is a mismatch
    fp64_reference: bool = False  # drop values that are as near to a run in double precision as eager's values
    allow_vacuous: bool = False  # pass a check that could not have failed
    reproduction: ReproductionFolder | None = None  # the folder for scripts of mismatches, if the user asked for them
    second_call: bool = False  # call both twice even if the first call leaves nothing behind, away from the ends
    explains: bool = True  # find the first operator that differs, with further runs
    tells_path: bool = False  # add the values on the way to the error, for a report

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1:
            raise ChoiceError(f"samples must be a whole number of at least 1, got {self.samples!r}")

    def run(self, model: Any, graph_call: GraphCall, mode: str | None, guard: Snapshot | None = None) -> None:
        """Compare on all samples; model, graph and random generators are restored.

        A guard that was made before tracing restores the model even if tracing changed it. `mode` is for messages.
        Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself fails, and
        VacuousCheckError if the check could not have failed on any sample.
        """
        __tracebackhide__ = True
        guard = guard or Snapshot()
        guard.include(model)
        guard.include_code(model)
        guard.include(graph_call.graph)
        guard.include(graph_call.readable)
        names = StateNames(guard.state_of(model))
        twice = self.second_call or may_keep_state(graph_call.graph, graph_call.call)
        says_nothing: list[VacuousCheckError] = []
        with globals_kept():
            for sample in range(self.samples):
                arguments = self.arguments if sample == 0 else fresh_sample(self.arguments, self.seed + sample)
                settings = RunSettings(
                    arguments,
                    names,
                    guard,
                    self.seed + sample,
                    self.grads,
                    second_call=twice,
                    second_inputs="inner" if self.second_call else "others",
                    calls=steps_of(model) or 2,
                )
                context = CheckContext(self.subject, mode, sample, self.samples, self.seed)
                says_nothing += _Sample(self, model, graph_call, settings, context).compare()
        if len(says_nothing) == self.samples:
            raise says_nothing[0]


@dataclasses.dataclass(frozen=True)
class _Sample:
    """One sample of a check: the runs of model and graph, and the judgement on their differences."""

    check: EquivalenceCheck
    model: Any
    graph_call: GraphCall
    settings: RunSettings
    context: CheckContext

    def compare(self) -> list[VacuousCheckError]:
        """Run both, raise the errors of a difference, and return the error of a sample that could not have failed."""
        __tracebackhide__ = True
        check, context = self.check, self.context
        expected, obtained, mismatches = self._run_both()
        if isinstance(expected, RunFailure):
            raise eager_failure(expected, context) from expected.error
        self._check_globs(expected)
        if check.grads and expected.gradients is None:
            raise EagerError(
                f"cannot compare gradients{context}: no output of the model itself requires grad, so there is "
                "nothing to differentiate; drop grads=True, or return a tensor that depends on inputs or parameters"
            )
        if isinstance(obtained, RunFailure):
            failed = [graph_failure(obtained)]
            raise mismatch_error(failed, context, self._write_reproduction(expected, failed)) from obtained.error
        if code_is_stale(self.graph_call.call):
            raise mismatch_error([_STALE], context)
        if mismatches:
            mismatches = self._without_rounding(mismatches, expected, obtained)
        if check.strict_inputs and not context.sample:
            mismatches = [*mismatches, *self._unread_inputs()]
        if mismatches:
            raise self._explained(expected, mismatches)
        if check.allow_vacuous or could_fail(expected, self.settings.arguments, check.comparison):
            return []
        return [vacuous_values_error(expected, check.comparison, context)]

    def _explained(self, expected: RunResult, mismatches: list[Mismatch]) -> MismatchError:
        """Return the error of the mismatches, with the place of divergence and the possible causes."""
        check, called = self.check, self.graph_call.shown().call
        lines: list[str] = []
        path: tuple[PathStep, ...] = ()
        if check.explains:
            lines, path = notes_on_mismatch(
                self.model, called, self.settings, check.comparison, mismatches, with_path=check.tells_path
            )
        # The place of divergence comes first, then the script, because a message has six lines.
        notes = [*lines[:1], *self._write_reproduction(expected, mismatches)]
        if check.explains and not check.strict_inputs:
            notes += [each.sentence() for each in self._unread_inputs()]
        notes += [*_note_on_hooks(self.model), *lines[1:]]
        return mismatch_error(mismatches, self.context, tuple(notes), path)

    def _unread_inputs(self) -> Iterator[Mismatch]:
        """Yield a mismatch for each input that the graph lost, a possible cause of other mismatches."""
        return unread_inputs(self.model, self.graph_call.graph, self.graph_call.call, self.settings)

    def _check_globs(self, expected: RunResult) -> None:
        """Raise ChoiceError for a tolerance by path whose path matches no compared value."""
        rule = self.check.comparison.rule
        if not isinstance(rule.rtol, Mapping) and not isinstance(rule.atol, Mapping):
            return
        paths = [where for where, _ in walk(expected.output, OUTPUT)]
        paths += [f"gradient of {name}" for name in expected.gradients or {}]
        paths += [where for where, _ in expected.arguments.tensors()]
        paths += [state.label for state in expected.state.changed.values()]
        unknown = rule.globs_without_match(paths)
        if unknown:
            raise ChoiceError(
                f"there is a tolerance for {unknown[0]!r}, and nothing is compared at a path that matches it; "
                f"there are {listed(paths, _PATHS_TOLD)}"
            )

    def _without_rounding(self, mismatches: list[Mismatch], expected: RunResult, obtained: RunResult) -> list[Mismatch]:
        """Drop the mismatches that a run of the model in double precision explains as rounding."""
        of_eager, of_graph = (compared_tensors(run.output, run.gradients) for run in (expected, obtained))
        judge = DoubleJudge(self.model, self.graph_call.call, self.settings, of_eager, of_graph, obtained.pairs)
        if self.check.fp64_reference:
            return judge.filter_by_reference(mismatches)
        rule, inputs = self.check.comparison.rule, {path for path, _ in self.settings.arguments.tensors()}
        rules = rules_of_gradients(expected.gradients or {}, rule, inputs)
        return judge.without_rounding(mismatches, lambda where: rules.get(where) or rule.for_path(where))

    def _run_both(self) -> _Comparison:
        """Run eager, then the graph, and compare.

        Reading all parameters after each run costs as much as a small forward, so they are read after the second run
        alone. Either run may have made a write that torch's version counter missed. Both then run again, and all
        parameters are read after each run. Both also run again if they differ, because an uncounted write of the first
        run may be the reason.
        """
        quick = None
        if not self.check.grads:
            quick = self._run_each(self.settings, trust_versions=True)
            if isinstance(quick[1], RunResult) and not quick[1].has_uncounted_writes and not quick[2]:
                return quick
            self.settings.guard.restore()
        thorough = self._run_each(self.settings, trust_versions=False)
        has_uncounted_writes = any(isinstance(run, RunResult) and run.has_uncounted_writes for run in thorough)
        # Without uncounted writes, runs that agree the second time and not the first do not agree.
        return quick if quick is not None and quick[2] and not has_uncounted_writes else thorough

    def _run_each(self, settings: RunSettings, *, trust_versions: bool) -> _Comparison:
        """Run eager and graph once each, or twice in a row if one of them may keep something between calls."""
        of_eager = dataclasses.replace(settings, trust_versions=trust_versions)
        expected = run_model(self.model, self.model, of_eager)
        if isinstance(expected, RunFailure):
            return expected, expected, []
        if expected.second_output is not None and expected.second_output.error is not None:
            # Other inputs may not suit the state after the first call.
            settings = dataclasses.replace(settings, second_inputs="same")
            expected = run_model(self.model, self.model, dataclasses.replace(of_eager, second_inputs="same"))
        twice = isinstance(expected, RunResult) and expected.second_output is not None
        settings = dataclasses.replace(settings, second_call=twice)
        obtained = run_model(self.graph_call.call, self.graph_call.graph, settings)
        if isinstance(expected, RunFailure) or isinstance(obtained, RunFailure):
            return expected, obtained, []
        if obtained.has_uncounted_writes and trust_versions:
            return expected, obtained, []  # either run may have written: both run again
        if obtained.second_output is not None and not twice:
            return self._run_each(dataclasses.replace(settings, second_call=True), trust_versions=trust_versions)
        try:
            comparison, loosely = self.check.comparison, self.check.fp64_reference
            obtained = self._with_names_of_model(expected, obtained)
            found = differences_of_runs(expected, obtained, settings.arguments, comparison, loosely=loosely)
            return expected, obtained, found
        except RecursionError as error:
            raise UncomparableError(
                "cannot compare the outputs: they are nested deeper than Python's recursion limit allows; return what "
                "is in them, or raise the limit with sys.setrecursionlimit()"
            ) from error

    def _with_names_of_model(self, expected: RunResult, obtained: RunResult) -> RunResult:
        """Give the state of a copy, which the graph may hold under other paths, the names of the model's state."""
        if obtained.state.known <= expected.state.known:
            return obtained
        settings = self.settings
        states = (settings.guard.state_of(self.model), settings.guard.state_of(self.graph_call.graph))
        inputs = {path for path, _ in settings.arguments.tensors()}
        pairs = paired_paths(expected, obtained, states, settings.names, self.check.comparison, inputs)
        return with_names(obtained, pairs) if pairs else obtained

    def _write_reproduction(self, expected: RunResult, mismatches: list[Mismatch]) -> tuple[str, ...]:
        """Write a script that shows the mismatch without the tests, if the user asked for it; return a note on it."""
        folder, comparison = self.check.reproduction, self.check.comparison
        if folder is None:
            return ()
        headline = str(mismatch_error(mismatches, self.context)).partition("\n")[0]
        checks = tuple(check for check in CHECKS if check in comparison.checks)
        options = {
            **{name: getattr(comparison.rule, name) for name in ("rtol", "atol", "sqnr", "cosine")},
            "checks": checks if len(checks) < len(CHECKS) else None,
            "fp64_reference": self.check.fp64_reference or None,
        }
        shown = self.graph_call.shown()
        note = folder.write(headline, self.model, shown.graph, shown.call, self.settings, options, expected, mismatches)
        return () if note is None else (note,)


def _note_on_hooks(model: Any) -> tuple[str, ...]:
    """Explain that tracing leaves out the model's own forward hooks, if the model has hooks."""
    if not isinstance(model, nn.Module) or not (model._forward_hooks or model._forward_pre_hooks):
        return ()
    if is_torch_graph_module(model):  # a graph that was not traced runs with its hooks
        return ()
    return (
        "the model itself has forward hooks, and a trace begins below them: they are no part of its graph; "
        "put the model into another module to have them traced",
    )


def graph_failure(failure: RunFailure) -> Mismatch:
    """Return the mismatch of a graph that failed where the model ran."""
    return Mismatch("error", f"the {failure.step} of the graph", f"{failure}; eager ran")


def eager_failure(failure: RunFailure, context: CheckContext) -> EagerError:
    """Return the error of a model that failed, so that nothing was compared."""
    remedy = "check that the inputs fit the model"
    if failure.step == "backward":
        remedy = "the model cannot be differentiated at these inputs, so drop grads=True"
    return EagerError(
        f"cannot compare eager and {context.subject}{context}: the {failure.step} of the model itself {failure}. "
        f"Nothing was compared; {remedy}"
    )
