"""Calls that differ from an example, and the judgement on a graph's answer to such a call.

A graph traced with an example holds for other calls, too: it answers them as the model does, or refuses them.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import torch

import fxcore
from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.equivalence.example_changes import CALL, EVERYWHERE, MODEL, Change, rewritten
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments, fresh_sample
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.preparation import TrainingFlags, follow_mode, set_mode
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.run_differences import differences_of_runs
from pytest_fxgraph.equivalence.search.judging import quiet
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule

# A call that both refuse with an error of their own says little about the graph.
Verdict = Literal["right", "refused", "both raise"]


@dataclasses.dataclass(frozen=True)
class ChangedCall:
    """A call of a model and of its graph that differs from the example."""

    example: Arguments
    changes: tuple[Change, ...] = ()
    seed: int = 0  # of new values between the least and the largest of each tensor; 0 keeps the example's
    grads: bool = False  # compare gradients, too, if the modes of the call record them
    twice: bool = False  # call twice in a row, because the first call may leave state behind

    def __str__(self) -> str:
        facts = [*map(str, self.changes)]
        facts += [f"values of seed {self.seed}"] * bool(self.seed) + ["gradients"] * self.grads + ["twice"] * self.twice
        return "; ".join(facts) or "the example"

    __repr__ = __str__

    def arguments(self) -> Arguments:
        """Make the arguments. A change that does not suit a value which an earlier change replaced does nothing."""
        made = fresh_sample(self.example, self.seed) if self.seed else copy_arguments(self.example).arguments
        edits = [each for each in self.changes if each.kind not in ("mode", "attribute")]

        def edited(path: str, value: Any) -> Any:
            for each in edits:
                if each.where == path or (each.where == EVERYWHERE and isinstance(value, torch.Tensor)):
                    value = each.edit(value)
            return value

        args = tuple([rewritten(value, f"input {index}", edited) for index, value in enumerate(made.args)])
        kwargs = {name: rewritten(value, f"input {name}", edited) for name, value in made.kwargs.items()}
        result = Arguments(args, kwargs)
        for each in edits:
            if each.where == CALL:
                result = each.edit(result)
        return result

    def check(self, model: Any, graph: Any) -> Verdict:
        """Compare graph and model on this call; model, graph and all settings are restored.

        Raises MismatchError if the graph answers otherwise than the model, if it answers a call that the model
        refuses, if it fails with an error that is no FxError, and if a refused call changed something.
        """
        __tracebackhide__ = True
        arguments = self.arguments()
        with globals_kept(), quiet(), self._applied(model, graph):
            snapshot = Snapshot(model, graph)
            names = StateNames(snapshot.state_of(model))
            grads = self.grads and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            settings = RunSettings(arguments, names, snapshot, 1 + self.seed, grads, False, self.twice, "same")
            obtained = run_model(graph, graph, settings)
            if isinstance(obtained, RunFailure) and isinstance(obtained.error, fxcore.FxError):
                verdict: Verdict = "refused"
                found = list(_changed_by_refusal(graph, arguments, snapshot, grads))
            else:
                expected = run_model(model, model, settings)
                verdict = "both raise" if isinstance(expected, RunFailure) else "right"
                found = list(_differences(expected, obtained, arguments, grads))
        if found:
            error = mismatch_error(found, CheckContext(), (f"at this call: {self}",))
            raise error from getattr(obtained, "error", None)
        return verdict

    @contextlib.contextmanager
    def _applied(self, model: Any, graph: Any) -> Iterator[None]:
        """Set modes and attributes of the call on model and graph."""
        flags = TrainingFlags(model, graph)
        with contextlib.ExitStack() as stack:
            for each in self.changes:
                if each.kind == "attribute":
                    stack.enter_context(_attribute_set(each, model, graph))
                elif each.kind == "mode" and each.where == MODEL:
                    follow_mode(graph, model, set_mode(model, each.edit(model)))
            for each in self.changes:
                if each.kind == "mode" and each.where == CALL:
                    stack.enter_context(each.edit(model))
            try:
                yield
            finally:
                flags.restore()


def _differences(
    expected: RunResult | RunFailure, obtained: RunResult | RunFailure, arguments: Arguments, grads: bool
) -> Iterator[Mismatch]:
    if isinstance(obtained, RunFailure):
        if not isinstance(expected, RunFailure):
            text = f"raised {type(obtained.error).__name__}: {obtained.error}; eager ran"
            yield Mismatch("error", f"the {obtained.step} of the graph", text)
        return
    if isinstance(expected, RunFailure):
        text = f"raised {type(expected.error).__name__}: {expected.error}; the graph answered"
        if expected.step == "forward":
            yield Mismatch("error", "eager", text)
        return
    second = obtained.second_output
    if second is not None and isinstance(second.error, fxcore.FxError):
        obtained = dataclasses.replace(obtained, second_output=None)
    comparison = OutputComparison(ToleranceRule(), requires_grad=grads)
    yield from differences_of_runs(expected, obtained, arguments, comparison, loosely=False)


def _changed_by_refusal(graph: Any, arguments: Arguments, snapshot: Snapshot, grads: bool) -> Iterator[Mismatch]:
    """Call a graph that refuses once more, and yield what the refused call changed."""
    copied = copy_arguments(arguments, with_gradients=grads).arguments
    with contextlib.suppress(fxcore.FxError):
        graph(*copied.args, **copied.kwargs)
    findings = snapshot.compare()
    snapshot.restore(findings)
    if findings.changed or not findings.containers_unchanged:
        yield Mismatch("state", "the state of the graph", "was changed by a call that the graph refused")
    exact = OutputComparison(ToleranceRule(0.0, 0.0))
    for (where, given), (_, left) in zip(arguments.named(), copied.named(), strict=True):
        for each in exact.compare(given, left, where):
            yield Mismatch("mutation", each.where, "was changed by a call that the graph refused")


@contextlib.contextmanager
def _attribute_set(change: Change, model: Any, graph: Any) -> Iterator[None]:
    path, _, name = change.where.rpartition(".")
    owners = {id(owner): owner for owner in (root.get_submodule(path) for root in (model, graph))}
    before = [(owner, getattr(owner, name)) for owner in owners.values()]
    try:
        for owner, value in before:
            setattr(owner, name, change.edit(value))
        yield
    finally:
        for owner, value in before:
            setattr(owner, name, value)
