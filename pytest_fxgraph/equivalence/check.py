"""One comparison of a model with a graph: both run on each sample, and every difference is a mismatch."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

import fxcore
from fxcore.state.snapshot import Snapshot, globals_kept
from fxcore.state.storage import has_values
from pytest_fxgraph.captures.subjects import is_torch_graph_module
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.aliasing import compare_sharing
from pytest_fxgraph.equivalence.bisection import MismatchNotes, notes_on_mismatch
from pytest_fxgraph.equivalence.fp64_reference import (
    compared_tensors,
    filter_by_reference,
    without_rounding,
)
from pytest_fxgraph.equivalence.gradients import compare_gradients, rules_of_gradients
from pytest_fxgraph.equivalence.input_use import unread_inputs
from pytest_fxgraph.equivalence.inputs import Arguments, fresh_sample
from pytest_fxgraph.equivalence.kept_state import may_keep_state
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.nested_values import tensors_in, walk
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, SecondOutput, run_model
from pytest_fxgraph.equivalence.search.budget import SearchBudget
from pytest_fxgraph.equivalence.state_changes import StateNames, compare_state
from pytest_fxgraph.equivalence.tolerance import OUTPUT, SECOND_CALL, ToleranceRule, largest_magnitude
from pytest_fxgraph.errors import ChoiceError, EagerError, UncomparableError, VacuousCheckError

_PATHS_TOLD = 12
# A relative error that no rounding of half precision explains.
_LOOSE = 0.05

# What eager and graph did, and in what they differ; no mismatches where one of them failed.
_Comparison = tuple["RunResult | RunFailure", "RunResult | RunFailure", list[Mismatch]]


def code_is_stale(graph_module: Any) -> bool:
    """Tell whether the graph was changed after the last recompile(), so that forward runs something else."""
    if not isinstance(graph_module, fxcore.GraphModule) and not is_torch_graph_module(graph_module):
        return False
    return bool(graph_module.graph.python_code("self").src.strip() != graph_module.code.strip())


_STALE = Mismatch(
    "code",
    "the generated code",
    "is older than the graph, so that forward runs something else than what the graph shows: "
    "call recompile() after changing the graph",
)


@dataclasses.dataclass(frozen=True)
class GraphCall:
    """How a graph is run: `call` runs it, `graph` holds its state. Mostly both are the graph module."""

    graph: Any
    call: Callable[..., Any]
    readable: fxcore.GraphModule | None = None  # the same graph, where that which is run is none of fxcore

    def shown(self) -> GraphCall:
        """Return how the graph is run to say where it differs, and written to be run without the tests."""
        is_read = self.readable is not None and self.call is self.graph
        return GraphCall(self.readable, self.readable) if is_read and self.readable is not None else self


@dataclasses.dataclass(frozen=True)
class EquivalenceCheck:
    """What is compared, and how. Raises ValueError if `samples` is not a whole number of at least 1."""

    arguments: Arguments
    comparison: OutputComparison
    samples: int
    seed: int
    grads: bool
    subject: str = "graph"  # what messages call the graph
    strict_inputs: bool = False  # an input that eager reads and the graph does not is a mismatch
    fp64_reference: bool = False  # drop values that are as near to a run in double precision as eager's are
    reproduction: ReproductionFolder | None = None  # where mismatches are written to, if that was asked for
    second_call: bool = False  # call both twice also if the first call leaves nothing behind
    search: SearchBudget | None = None  # how long to search for an input at which the two part
    explains: bool = True  # say where eager and graph part, which takes further runs
    tells_path: bool = False  # with what was computed on the way, for a report

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {self.samples!r}")

    def run(self, model: Any, graph_call: GraphCall, mode: str | None, guard: Snapshot | None = None) -> None:
        """Compare on all samples; model, graph and random generators are restored.

        A guard that was made before tracing restores the model even if tracing changed it; `mode` is only shown.
        Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself fails.
        """
        __tracebackhide__ = True
        guard = guard or Snapshot()
        guard.include(model)
        guard.include(graph_call.graph)
        guard.include(graph_call.readable)
        names = StateNames(guard.state_of(model))
        twice = self.second_call or may_keep_state(graph_call.graph, graph_call.call)
        with globals_kept():
            for sample in range(self.samples):
                arguments = self.arguments if sample == 0 else fresh_sample(self.arguments, self.seed + sample)
                settings = RunSettings(arguments, names, guard, self.seed + sample, self.grads, second_call=twice)
                context = CheckContext(self.subject, mode, sample, self.samples, self.seed)
                self._check_sample(model, graph_call, settings, context)

    def _check_sample(self, model: Any, graph_call: GraphCall, settings: RunSettings, context: CheckContext) -> None:
        __tracebackhide__ = True
        expected, obtained, mismatches = self._run_both(model, graph_call, settings)
        if isinstance(expected, RunFailure):
            raise EagerError(_eager_failure_message(expected, context)) from expected.error
        self._check_globs(expected)
        if self.grads and expected.gradients is None:
            raise EagerError(
                f"cannot compare gradients{context}: no output of the model itself requires grad, so there is "
                "nothing to differentiate; drop grads=True, or return a tensor that depends on inputs or parameters"
            )
        if isinstance(obtained, RunFailure):
            failed = [_graph_failure(obtained)]
            notes = self._write_reproduction(model, graph_call, settings, context, expected, failed)
            raise mismatch_error(failed, context, notes) from obtained.error
        if code_is_stale(graph_call.call):
            raise mismatch_error([_STALE], context)
        if mismatches:
            mismatches = self._without_rounding(mismatches, model, graph_call, settings, expected, obtained)
        if self.strict_inputs and not context.sample:
            mismatches = [*mismatches, *unread_inputs(model, graph_call.graph, graph_call.call, settings)]
        if mismatches:
            found = MismatchNotes()
            if self.explains:
                called = graph_call.shown().call
                found = notes_on_mismatch(
                    model, called, settings, self.comparison, mismatches, with_path=self.tells_path
                )
            written = self._write_reproduction(model, graph_call, settings, context, expected, mismatches)
            # The place of divergence first, then the file that was asked for; six lines hold no more.
            unread = () if self.strict_inputs or not self.explains else _notes_on_inputs(model, graph_call, settings)
            notes = (*found.lines[:1], *written, *unread, *_note_on_hooks(model), *found.lines[1:])
            raise mismatch_error(mismatches, context, notes, found.path)
        if not _could_fail(expected, settings.arguments, self.comparison):
            _reject_drawn_example()
            raise VacuousCheckError(_vacuous_message(expected, self.comparison, context))

    def _check_globs(self, expected: RunResult) -> None:
        """Raise ChoiceError for a tolerance by path whose path is that of nothing."""
        rule = self.comparison.rule
        if not rule.rtol_by_path and not rule.atol_by_path:
            return
        paths = [where for where, _ in walk(expected.output, OUTPUT)]
        paths += [f"gradient of {name}" for name in expected.gradients or {}]
        paths += [where for where, _ in expected.arguments.tensors()]
        paths += [state.label for state in expected.state.changed.values()]
        unknown = rule.globs_without_match(paths)
        if unknown:
            more = f" and {len(paths) - _PATHS_TOLD} more" if len(paths) > _PATHS_TOLD else ""
            raise ChoiceError(
                f"there is a tolerance for {unknown[0]!r}, and nothing is compared at a path that matches it; "
                f"there are {', '.join(paths[:_PATHS_TOLD])}{more}"
            )

    def _without_rounding(
        self,
        mismatches: list[Mismatch],
        model: Any,
        graph_call: GraphCall,
        settings: RunSettings,
        expected: RunResult,
        obtained: RunResult,
    ) -> list[Mismatch]:
        """Drop what a run of the model in double precision says is rounding."""
        in_eager, in_graph = (compared_tensors(run.output, run.gradients) for run in (expected, obtained))
        if self.fp64_reference:
            return filter_by_reference(mismatches, model, settings, in_eager, in_graph)
        inputs = {path for path, _ in settings.arguments.tensors()}
        of_gradients = rules_of_gradients(expected.gradients or {}, self.comparison.rule, inputs)
        rules = {f"gradient of {name}": rule for name, rule in of_gradients.items()}

        def rule_of(where: str) -> ToleranceRule:
            return rules[where] if where in rules else self.comparison.rule.for_path(where)

        return without_rounding(mismatches, model, graph_call.call, settings, in_eager, in_graph, rule_of)

    def _run_both(self, model: Any, graph_call: GraphCall, settings: RunSettings) -> _Comparison:
        """Run eager, then the graph, and compare.

        Reading all parameters after each run costs as much as a small forward. So they are read after the second only.
        If one was written without torch's version counter, nobody knows by which run: both run again, and all is read
        after each. So it is done where the two differ, for an uncounted write of the first may be the reason.
        """
        quick = None
        if not self.grads:
            quick = self._run_each(model, graph_call, settings, trust_versions=True)
            if isinstance(quick[1], RunResult) and not quick[1].has_uncounted_writes and not quick[2]:
                return quick
            settings.guard.restore()
        thorough = self._run_each(model, graph_call, settings, trust_versions=False)
        has_uncounted_writes = any(isinstance(run, RunResult) and run.has_uncounted_writes for run in thorough[:2])
        # Without uncounted writes, what agrees the second time and not the first is no agreement.
        return quick if quick is not None and quick[2] and not has_uncounted_writes else thorough

    def _run_each(
        self, model: Any, graph_call: GraphCall, settings: RunSettings, *, trust_versions: bool
    ) -> _Comparison:
        """Run eager and graph once each, or twice in a row, if one of them may keep something between calls."""
        of_eager = dataclasses.replace(settings, trust_versions=trust_versions)
        expected = run_model(model, model, of_eager)
        if isinstance(expected, RunFailure):
            return expected, expected, []
        if _second_call_failed(expected):  # other inputs need not suit what the first call left
            settings = dataclasses.replace(settings, second_inputs="same")
            expected = run_model(model, model, dataclasses.replace(of_eager, second_inputs="same"))
        settings = dataclasses.replace(settings, second_call=_is_called_twice(expected))
        obtained = run_model(graph_call.call, graph_call.graph, settings)
        if isinstance(obtained, RunResult) and obtained.has_uncounted_writes and trust_versions:
            return expected, obtained, []  # nobody knows by which run: both run again
        if _is_called_twice(obtained) and not _is_called_twice(expected) and isinstance(expected, RunResult):
            return self._run_each(
                model, graph_call, dataclasses.replace(settings, second_call=True), trust_versions=trust_versions
            )
        return self._compare(expected, obtained, settings)

    def _compare(
        self, expected: RunResult | RunFailure, obtained: RunResult | RunFailure, settings: RunSettings
    ) -> _Comparison:
        if isinstance(expected, RunFailure) or isinstance(obtained, RunFailure):
            return expected, obtained, []
        try:
            return expected, obtained, self._mismatches(expected, obtained, settings.arguments)
        except RecursionError as error:
            raise UncomparableError(
                "cannot compare the outputs: they are nested deeper than Python's recursion limit allows; return what "
                "is in them, or raise the limit with sys.setrecursionlimit()"
            ) from error

    def _mismatches(self, expected: RunResult, obtained: RunResult, before: Arguments) -> list[Mismatch]:
        comparison, checks = self.comparison, self.comparison.checks
        found = list(comparison.compare(expected.output, obtained.output, OUTPUT))
        if "mutation" in checks:
            found += _compare_arguments(expected.arguments, obtained.arguments, before, comparison.of_values())
            found += _compare_requires_grad(expected.arguments, obtained.arguments)
        if "aliasing" in checks:
            found += compare_sharing(expected.sharing, obtained.sharing)
        if "state" in checks:
            found += compare_state(expected.state, obtained.state, comparison)
        if "rng" in checks:
            found += _compare_random_draws(expected, obtained)
        if "global state" in checks:
            found += _compare_global_changes(expected.global_changes, obtained.global_changes)
        if expected.gradients is not None:
            inputs = {path for path, _ in before.tensors()}
            found += compare_gradients(expected.gradients, obtained.gradients or {}, comparison, inputs)
        # What already the first call shows is told as that.
        second = expected.second_output, obtained.second_output
        if not found and "second call" in checks and second[0] is not None and second[1] is not None:
            found += _compare_second_outputs(second[0], second[1], comparison, loosely=self.fp64_reference)
        return found

    def _write_reproduction(
        self,
        model: Any,
        graph_call: GraphCall,
        settings: RunSettings,
        context: CheckContext,
        expected: RunResult,
        mismatches: list[Mismatch],
    ) -> tuple[str, ...]:
        """Write a script that shows the mismatch without the tests, if that was asked for; return a note on it."""
        if self.reproduction is None:
            return ()
        headline = str(mismatch_error(mismatches, context)).partition("\n")[0]
        options = self.comparison.rule.arguments()
        checks = [check for check in CHECKS if check in self.comparison.checks]
        options |= {
            "checks": tuple(checks) if len(checks) < len(CHECKS) else None,
            "fp64_reference": self.fp64_reference or None,
        }
        graph_call = graph_call.shown()
        note = self.reproduction.write(
            headline, model, graph_call.graph, graph_call.call, settings, options, expected, mismatches
        )
        return () if note is None else (note,)


def _compare_random_draws(expected: RunResult, obtained: RunResult) -> Iterator[Mismatch]:
    """Yield a mismatch if the two runs left a random generator in different states."""
    own, others = expected.generators, obtained.generators
    rng = obtained.rng  # a generator that only one run knows was imported in between
    generators = [name for name, state in expected.rng.items() if name in rng and state != rng[name]]
    generators += [name for name in {**own, **others} if own.get(name) != others.get(name)]
    if generators:
        yield Mismatch("rng", " and ".join(generators), "drew otherwise in the graph than in eager")


def _is_called_twice(run: RunResult | RunFailure) -> bool:
    return isinstance(run, RunResult) and run.second_output is not None


def _second_call_failed(run: RunResult | RunFailure) -> bool:
    return isinstance(run, RunResult) and run.second_output is not None and run.second_output.error is not None


def _compare_second_outputs(
    expected: SecondOutput, obtained: SecondOutput, comparison: OutputComparison, *, loosely: bool
) -> Iterator[Mismatch]:
    """Yield the differences of a second call in a row, where state that only one of the two kept shows.

    Rounding was judged by the first call: here it may be as large as the largest value allows, or, `loosely`, larger.
    """
    if expected.error is None and obtained.error is None:
        measured = [tensor for _, tensor in tensors_in(expected.value, SECOND_CALL) if has_values(tensor)]
        largest = max(1.0, largest_magnitude(measured))
        rule = dataclasses.replace(comparison.rule, scale=largest)
        rule = ToleranceRule(_LOOSE, _LOOSE * largest) if loosely else rule
        plain = dataclasses.replace(comparison.of_values(), rule=rule)
        yield from plain.compare(expected.value, obtained.value, SECOND_CALL)
    elif (expected.error is None) != (obtained.error is None):
        names = ("the graph", "eager") if expected.error is None else ("eager", "the graph")
        error = expected.error or obtained.error
        yield Mismatch(
            "error", f"a second call of {names[0]}", f"raised {type(error).__name__}: {error}; {names[1]} ran"
        )


def _compare_global_changes(expected: Mapping[str, str], obtained: Mapping[str, str]) -> Iterator[Mismatch]:
    """Yield a mismatch for each setting of torch that the two runs left differently."""
    for name in {**expected, **obtained}:
        of_eager, of_graph = (changes.get(name, "unchanged") for changes in (expected, obtained))
        if of_eager != of_graph:
            yield Mismatch(
                "global state", name, f"was left {of_graph} by the graph, {of_eager} by eager; it was put back"
            )


def _compare_arguments(
    expected: Arguments, obtained: Arguments, before: Arguments, comparison: OutputComparison
) -> Iterator[Mismatch]:
    """Yield a mismatch for every input that the two runs left in different states."""
    # A hook that calls two outputs equal says nothing about what may be done to an input.
    plain = dataclasses.replace(comparison, requires_grad=False, custom_comparison=None)
    exact = dataclasses.replace(plain, rule=ToleranceRule(0.0, 0.0))
    originals = dict(before.tensors())
    for (where, given), (_, after_eager), (_, after_graph) in zip(
        before.named(), expected.named(), obtained.named(), strict=True
    ):
        # What eager left alone must be left alone to the bit: nothing is rounded there.
        is_unchanged = not any(exact.compare(given, after_eager, where))
        for mismatch in (exact if is_unchanged else plain).compare(after_eager, after_graph, where):
            original, in_eager, in_graph = (tensors.get(mismatch.where) for tensors in (
                originals, dict(expected.tensors()), dict(obtained.tensors())))  # fmt: skip
            description = _describe_change(original, in_eager, in_graph, exact)
            description = description or f"differs after the calls: it {mismatch.description}"
            yield Mismatch("mutation", mismatch.where, description, mismatch.statistics)


def _compare_requires_grad(expected: Arguments, obtained: Arguments) -> Iterator[Mismatch]:
    """Yield a mismatch for each input of which one run alone changed `requires_grad`."""
    in_graph = dict(obtained.tensors())
    for where, tensor in expected.tensors():
        other = in_graph.get(where, tensor)
        if tensor.requires_grad != other.requires_grad:
            yield Mismatch(
                "mutation",
                where,
                f"has requires_grad={tensor.requires_grad} after eager's call, {other.requires_grad} after the graph's",
            )


def _describe_change(
    original: torch.Tensor | None,
    after_eager: torch.Tensor | None,
    after_graph: torch.Tensor | None,
    comparison: OutputComparison,
) -> str | None:
    """Say which run changed a tensor; None where that cannot be told from the tensors alone."""
    if original is None or after_eager is None or after_graph is None:
        return None
    by_eager = any(comparison.compare_tensors(original, after_eager, ""))
    by_graph = any(comparison.compare_tensors(original, after_graph, ""))
    if by_eager and by_graph:
        return "was changed in place by eager and by the graph, to different values"
    if not by_eager and not by_graph:
        return None
    return f"was changed in place by {'eager, not by the graph' if by_eager else 'the graph, not by eager'}"


def _could_fail(expected: RunResult, before: Arguments, comparison: OutputComparison) -> bool:
    """Tell whether a graph that gives zeros throughout would be caught; True where no values of floats are compared."""
    if "values" not in comparison.checks:
        return True  # who leaves them out asks for something else
    leaves = [(where, leaf) for where, leaf in walk(expected.output, OUTPUT) if not _has_no_values(leaf)]
    if not leaves or not all(comparison.would_match_zeros(leaf, where) for where, leaf in leaves):
        return True
    given = dict(before.tensors())
    of_gradients = rules_of_gradients(expected.gradients or {}, comparison.rule, given)
    for name, gradient in (expected.gradients or {}).items():
        if gradient is not None:
            of_one = dataclasses.replace(comparison, rule=of_gradients[name])
            if not of_one.would_match_zeros(gradient, "", is_output=False):
                return True
    others: list[tuple[str, torch.Tensor]] = []
    if "state" in comparison.checks:
        others += [(state.label, state.tensor) for state in expected.state.changed.values()]
    if "mutation" in comparison.checks:
        others += [pair for pair in expected.arguments.tensors() if _differs(pair[1], given.get(pair[0]))]
    return not all(
        comparison.would_match_zeros(tensor, where, is_output=False)
        for where, tensor in others
        if not _has_no_values(tensor)
    )


def _has_no_values(leaf: object) -> bool:
    return leaf is None or (isinstance(leaf, torch.Tensor) and not (has_values(leaf) and leaf.numel()))


def _differs(tensor: torch.Tensor, given: torch.Tensor | None) -> bool:
    exact = OutputComparison(ToleranceRule(0.0, 0.0))
    return given is None or any(exact.compare_tensors(given, tensor, ""))


def _reject_drawn_example() -> None:
    """Have hypothesis draw another example, if one of its is run: that this one says nothing is nobody's fault."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None and hypothesis.currently_in_test_context():
        hypothesis.reject()


def _vacuous_message(expected: RunResult, comparison: OutputComparison, context: CheckContext) -> str:
    where, tensor = tensors_in(expected.output, OUTPUT)[0]
    largest = largest_magnitude(tensor for _, tensor in tensors_in(expected.output, OUTPUT))
    tolerance = comparison.rule.for_path(where).for_tensor(tensor)
    return (
        f"comparing eager and {context.subject}{context} says nothing: a graph that gives zeros would pass, too. "
        f"No magnitude in the output exceeds {largest:.3g}, and {where} is compared with "
        f"{tolerance}. Initialise the model so that its output is not zero, scale its weights or inputs"
        f"{'' if tolerance.has_thresholds else ', or give a smaller atol'}"
    )


def _notes_on_inputs(model: Any, graph_call: GraphCall, settings: RunSettings) -> tuple[str, ...]:
    """Say which inputs the graph lost, which may be the cause of a mismatch."""
    unread = unread_inputs(model, graph_call.graph, graph_call.call, settings)
    return tuple([mismatch.sentence() for mismatch in unread])


def _note_on_hooks(model: Any) -> tuple[str, ...]:
    """Say what tracing leaves out of a graph, where a model has it."""
    if not isinstance(model, nn.Module) or not (model._forward_hooks or model._forward_pre_hooks):
        return ()
    if is_torch_graph_module(model):  # not traced: its graph is run with its hooks
        return ()
    return (
        "the model itself has forward hooks, and a trace begins below them: they are no part of its graph; "
        "put the model into another module to have them traced",
    )


def _graph_failure(failure: RunFailure) -> Mismatch:
    error = failure.error
    return Mismatch("error", f"the {failure.step} of the graph", f"raised {type(error).__name__}: {error}; eager ran")


def _eager_failure_message(failure: RunFailure, context: CheckContext) -> str:
    error = failure.error
    remedy = "check that the inputs fit the model"
    if failure.step == "backward":
        remedy = "the model cannot be differentiated at these inputs, so drop grads=True"
    return (
        f"cannot compare eager and {context.subject}{context}: the {failure.step} of the model itself "
        f"raised {type(error).__name__}: {error}. Nothing was compared; {remedy}"
    )
