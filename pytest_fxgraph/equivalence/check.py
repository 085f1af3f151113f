"""One comparison of a model with a graph, with all that it needs to know."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn

import fxcore
from pytest_fxgraph.equivalence.aliasing import compare_sharing
from pytest_fxgraph.equivalence.bisection import notes_on_mismatch
from pytest_fxgraph.equivalence.fp64_reference import judged_by_reference
from pytest_fxgraph.equivalence.gradients import compare_gradients
from pytest_fxgraph.equivalence.input_mutation import compare_arguments
from pytest_fxgraph.equivalence.inputs import Arguments, fresh_sample
from pytest_fxgraph.equivalence.mismatch import EagerError, Mismatch
from pytest_fxgraph.equivalence.mismatch_report import Circumstances, mismatch_error
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.rng import RngState
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.state.changes import StateNames, compare_state
from pytest_fxgraph.equivalence.state.generators import Moved
from pytest_fxgraph.equivalence.state.guard import StateGuard


def code_is_stale(graph_module: Any) -> bool:
    """Tell whether the graph was changed after the last recompile(), so that forward runs something else."""
    if not isinstance(graph_module, fxcore.GraphModule):
        return False
    return bool(graph_module.graph.python_code("self").src.strip() != graph_module.code.strip())


_STALE = Mismatch(
    "code",
    "the generated code",
    "is older than the graph, so that forward runs something else than what the graph shows: "
    "call recompile() after changing the graph",
)


class Runs:
    """What runs in the graph's lane: mostly the graph module itself, else an interpreter of its graph."""

    def __init__(self, graph: Any, call: Callable[..., Any] | None = None) -> None:
        self.graph = graph  # holds the state
        self.call = call if call is not None else graph


@dataclasses.dataclass(frozen=True)
class EquivalenceCheck:
    """What is compared, and how."""

    arguments: Arguments
    comparison: OutputComparison
    samples: int
    seed: int
    grads: bool
    subject: str = "graph"
    fp64_reference: bool = False  # let a run in double precision judge values that differ
    reproduction: ReproductionFolder | None = None  # where mismatches are written to, if that was asked for

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {self.samples!r}")

    def about(self, subject: str) -> EquivalenceCheck:
        """Give the same check with other words for what is compared with eager."""
        return dataclasses.replace(self, subject=subject)

    def run(self, model: Any, runs: Runs, mode: str | None, guard: StateGuard | None = None) -> None:
        """Compare on all samples; nothing but the mismatch is left behind.

        A guard that was made before the graph was traced knows what the model was even if tracing changed it.
        """
        __tracebackhide__ = True
        rng = RngState.now()
        guard = guard or StateGuard()
        guard.include(model)
        guard.include(runs.graph)
        names = StateNames(guard.state_of(model))
        try:
            for sample in range(self.samples):
                arguments = self.arguments if sample == 0 else fresh_sample(self.arguments, self.seed + sample)
                settings = RunSettings(arguments, names, guard, self.seed + sample, self.grads)
                circumstances = Circumstances(self.subject, mode, sample, self.samples, self.seed)
                self._check_sample(model, runs, settings, circumstances)
        finally:
            rng.restore()

    def _check_sample(self, model: Any, runs: Runs, settings: RunSettings, circumstances: Circumstances) -> None:
        __tracebackhide__ = True
        expected, obtained, mismatches = self._run_lanes(model, runs, settings)
        if isinstance(expected, RunFailure):
            raise EagerError(_eager_failure_words(expected, circumstances)) from expected.error
        if self.grads and expected.gradients is None:
            raise EagerError(
                f"cannot compare gradients{circumstances}: no output of the model itself requires grad, so there is "
                "nothing to differentiate; drop grads=True, or return a tensor that depends on inputs or parameters"
            )
        if isinstance(obtained, RunFailure):
            failed = [_graph_failure(obtained)]
            notes = self._reproduced(model, runs, settings, circumstances, expected, failed)
            raise mismatch_error(failed, circumstances, notes) from obtained.error
        if code_is_stale(runs.call):
            raise mismatch_error([_STALE], circumstances)
        if mismatches and self.fp64_reference:
            mismatches = judged_by_reference(mismatches, model, settings, expected.output, obtained.output)
        if mismatches:
            found = notes_on_mismatch(model, runs.call, settings, self.comparison, mismatches)
            written = self._reproduced(model, runs, settings, circumstances, expected, mismatches)
            # The place of divergence first, then the file that was asked for; six lines hold no more.
            raise mismatch_error(mismatches, circumstances, (*found[:1], *written, *_about_hooks(model), *found[1:]))

    def _run_lanes(
        self, model: Any, runs: Runs, settings: RunSettings
    ) -> tuple[RunResult | RunFailure, RunResult | RunFailure, list[Mismatch]]:
        """Run eager, then the graph, and compare.

        Reading all parameters after each lane costs as much as a small forward. So they are read after the second only,
        and if it shows that one was written behind torch's back, nobody knows by whom: both run again, read after each.
        So they do where the two differ, for a write that the first hid may be why.
        """
        quick = None
        if not self.grads:
            quick = self._compared(
                run_model(model, model, dataclasses.replace(settings, trust_versions=True)),
                run_model(runs.call, runs.graph, settings),
                settings,
            )
            if isinstance(quick[1], RunResult) and not quick[1].changed_unseen and not quick[2]:
                return quick
            settings.guard.restore()
        thorough = self._compared(
            run_model(model, model, settings), run_model(runs.call, runs.graph, settings), settings
        )
        hid_writes = any(isinstance(lane, RunResult) and lane.changed_unseen for lane in thorough[:2])
        # Without hidden writes, what agrees the second time and not the first is no agreement.
        return quick if quick is not None and quick[2] and not hid_writes else thorough

    def _compared(
        self, expected: RunResult | RunFailure, obtained: RunResult | RunFailure, settings: RunSettings
    ) -> tuple[RunResult | RunFailure, RunResult | RunFailure, list[Mismatch]]:
        if isinstance(expected, RunFailure) or isinstance(obtained, RunFailure):
            return expected, obtained, []
        return expected, obtained, self.mismatches(expected, obtained, settings.arguments)

    def _reproduced(
        self,
        model: Any,
        runs: Runs,
        settings: RunSettings,
        circumstances: Circumstances,
        expected: RunResult,
        mismatches: list[Mismatch],
    ) -> tuple[str, ...]:
        """Write the mismatch down so that it can be run without the tests, where that was asked for; say where."""
        if self.reproduction is None:
            return ()
        headline = str(mismatch_error(mismatches, circumstances)).partition("\n")[0]
        rule = self.comparison.rule
        words = self.reproduction.write(headline, model, runs.graph, runs.call, settings, rule, expected, mismatches)
        return () if words is None else (words,)

    def mismatches(self, expected: RunResult, obtained: RunResult, before: Arguments) -> list[Mismatch]:
        """List everything in which two lanes differ."""
        found = list(self.comparison.compare(expected.output, obtained.output, "output"))
        found += compare_arguments(expected.arguments, obtained.arguments, before, self.comparison)
        found += compare_sharing(expected.sharing, obtained.sharing)
        found += compare_state(expected.state, obtained.state, self.comparison)
        generators = [*expected.rng.moved_to(obtained.rng), *_differing(expected.generators, obtained.generators)]
        if generators:
            found.append(Mismatch("rng", " and ".join(generators), "drew otherwise in the graph than in eager"))
        if expected.gradients is not None:
            found += compare_gradients(expected.gradients, obtained.gradients or {}, self.comparison)
        return found


def _differing(expected: Moved, obtained: Moved) -> list[str]:
    return [name for name in {**expected, **obtained} if expected.get(name) != obtained.get(name)]


def _about_hooks(model: Any) -> tuple[str, ...]:
    """Say what tracing leaves out of a graph, where a model has it."""
    if not isinstance(model, nn.Module) or not (model._forward_hooks or model._forward_pre_hooks):
        return ()
    return (
        "the model itself has forward hooks, and a trace begins below them: they are no part of its graph; "
        "put the model into another module to have them traced",
    )


def _graph_failure(failure: RunFailure) -> Mismatch:
    error = failure.error
    return Mismatch("error", f"the {failure.step} of the graph", f"raised {type(error).__name__}: {error}; eager ran")


def _eager_failure_words(failure: RunFailure, circumstances: Circumstances) -> str:
    error = failure.error
    remedy = "check that the inputs fit the model"
    if failure.step == "backward":
        remedy = "the model cannot be differentiated at these inputs, so drop grads=True"
    return (
        f"cannot compare eager and {circumstances.subject}{circumstances}: the {failure.step} of the model itself "
        f"raised {type(error).__name__}: {error}. Nothing was compared; {remedy}"
    )
