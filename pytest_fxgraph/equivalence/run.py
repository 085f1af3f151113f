"""One run: a single call of model or graph, and everything that can be seen of it afterwards."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

import fxcore
from fxcore.state.held_state import StateTensor
from fxcore.state.readings import Readings, global_generators, seed_generators
from fxcore.state.snapshot import Findings, Snapshot, globals_kept
from fxcore.state.storage import copy_tensor, has_storage, storage_of
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.equivalence.aliasing import Sharing, sharing_of_outputs
from pytest_fxgraph.equivalence.change_words import settings_in_words
from pytest_fxgraph.equivalence.gradients import Gradients, differentiable_parameters, gradients_of
from pytest_fxgraph.equivalence.inputs import ArgumentCopy, Arguments, copy_arguments, fresh_sample
from pytest_fxgraph.equivalence.nested_values import tensors_in, with_iterators_read
from pytest_fxgraph.equivalence.state_changes import StateAfter, StateNames, state_after
from pytest_fxgraph.errors import CaptureError, SubjectError

# Data beside tensors that a call may leave for the next call: numpy arrays, globals and enclosed variables.
_KEPT_ROLES = ("array", "variable")


@dataclass(frozen=True)
class SecondOutput:
    """The result or the error of a later call in a row; state that earlier calls left behind may change it."""

    value: Any
    error: Exception | None = None
    state: StateAfter | None = None  # the changes of all calls together; None after an error
    next: SecondOutput | None = None  # of the call after this one


@dataclass(frozen=True)
class RunResult:
    """The result of a call, and the state after it."""

    output: Any
    arguments: Arguments  # as the call left them
    sharing: Sharing
    state: StateAfter
    rng: Mapping[str, Any]  # the states of the global generators, by name
    generators: Mapping[str, Any]  # the states of the model's own generators, if the call used them
    gradients: Gradients | None  # None without `grads`, or if no output requires grad
    # This run, or an earlier run that trusted versions, wrote state through `.data`.
    has_uncounted_writes: bool
    global_changes: Mapping[str, str]  # settings of torch that the call changed and left, until they were put back
    second_output: SecondOutput | None = None  # of one more call, if the first call left state behind
    pairs: Mapping[str, str] = field(default_factory=dict)  # names in the model, by path of a copy's state in the graph


@dataclass(frozen=True)
class RecordedRun:
    """Takes the place of a model that cannot be run again, because it cannot be pickled."""

    result: RunResult


@dataclass(frozen=True)
class RunFailure:
    """A call that raised."""

    step: str  # "forward" or "backward"
    error: Exception

    def __str__(self) -> str:
        return f"raised {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True)
class RunSettings:
    """The settings that all runs of one comparison share."""

    arguments: Arguments
    names: StateNames
    guard: Snapshot
    seed: int
    grads: bool
    trust_versions: bool = False  # do not read all parameters; the next run must read them
    second_call: bool = False  # call twice even if the first call leaves no state behind
    second_inputs: Literal["others", "inner", "same"] = "others"  # other inputs show a kept result
    calls: int = 2  # in a row, if there is a second one


def run_model(call: Callable[..., Any] | RecordedRun, root: object, settings: RunSettings) -> RunResult | RunFailure:
    """Call a model or graph on its own copy of the inputs, and restore the state that `root` holds.

    An error of the call is returned as a RunFailure. Raises InputsError if the inputs cannot be copied.
    """
    if isinstance(call, RecordedRun):
        return call.result
    copied = copy_arguments(settings.arguments, with_gradients=settings.grads)
    seed_generators(settings.seed)
    step = "forward"
    findings: Findings | None = None
    second: SecondOutput | None = None
    failed = True
    try:
        with _gradient_mode(settings.grads):
            with globals_kept(generators=False) as before:
                output = with_iterators_read(call(*copied.arguments.args, **copied.arguments.kwargs))
                global_changes = settings_in_words(before.changed_readings())
            rng = Readings(global_generators()).states()
            findings = settings.guard.compare(trust_versions=settings.trust_versions)
            readings = settings.guard.changed_readings()
            now = settings.guard.state_now(root, findings)
            state = state_after(settings.guard, root, findings, now, settings.names)
            of_state = now.in_storages_of([tensor for _, tensor in tensors_in(output, "output")])
            sharing = _sharing(output, copied, of_state, settings.names)
            step = "backward"
            parameters = differentiable_parameters(now, settings.names) if settings.grads else {}
            gradients = gradients_of(output, parameters, copied, settings.seed) if settings.grads else None
        output = _detached_output(output, of_state, settings.grads)
        is_changed = findings.changed or not findings.containers_unchanged
        if settings.second_call or is_changed or any(change.role in _KEPT_ROLES for change in readings):
            second = _second_output(call, root, settings)
        failed = False
    except Exception as error:
        return RunFailure(step, error)
    finally:
        # A backward may have run the user's hooks, and a failed call may have stopped anywhere: compare again. The next
        # run reads all parameters and finds uncounted writes. After a failure there is no next run.
        found = None if settings.grads or second is not None else findings
        settings.guard.restore(found, trust_versions=settings.trust_versions and not failed)
    return RunResult(
        output,
        copied.arguments,
        sharing,
        state,
        rng,
        {f"the generator {change.path}": change.after for change in readings if change.role == "generator"},
        gradients,
        findings.has_uncounted_writes,
        global_changes,
        second,
    )


def _second_output(call: Callable[..., Any], root: object, settings: RunSettings, number: int = 2) -> SecondOutput:
    """Call once more, with the state after the call before, and with other inputs of the same shapes."""
    drawn, kind = settings.arguments, settings.second_inputs
    if kind != "same":
        drawn = fresh_sample(drawn, settings.seed + number - 2, is_inner=kind == "inner")
    copied = copy_arguments(drawn).arguments
    with torch.no_grad() if settings.grads else contextlib.nullcontext(), globals_kept(generators=False):
        try:
            output = with_iterators_read(call(*copied.args, **copied.kwargs))
        except Exception as error:
            return SecondOutput(None, error)
    tensors = [tensor for _, tensor in tensors_in(output, "output")]
    findings = settings.guard.compare(trust_versions=settings.trust_versions)
    now = settings.guard.state_now(root, findings)
    state = state_after(settings.guard, root, findings, now, settings.names)
    kept = _detached_output(output, now.in_storages_of(tensors), grads=False)
    later = _second_output(call, root, settings, number + 1) if number < settings.calls else None
    return SecondOutput(kept, None, state, later)


@contextlib.contextmanager
def _gradient_mode(grads: bool) -> Iterator[None]:
    """Record gradients for `grads`; else leave the caller's mode (no_grad, inference) as it is."""
    if not grads:
        yield
        return
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _sharing(
    output: object, copied: ArgumentCopy, of_state: Mapping[int, list[StateTensor]], names: StateNames
) -> Sharing:
    named = {storage: [(names.name(state), state.tensor) for state in held] for storage, held in of_state.items()}
    return sharing_of_outputs(tensors_in(output, "output"), copied.arguments.tensors(), named)


def _detached_output(output: Any, of_state: Mapping[int, list[StateTensor]], grads: bool) -> Any:
    """Return the output with copies of its tensors in `of_state`, the storages of the state that will be restored.

    Without gradients the output is also detached, because the graph of autograd would keep all activations in memory.
    """
    memo: dict[int, Any] = {}
    is_same = True
    for _, tensor in tensors_in(output, "output"):
        kept = tensor
        if has_storage(tensor) and storage_of(tensor) in of_state:
            kept = copy_tensor(tensor)
        elif tensor.grad_fn is not None and not grads:
            kept = tensor.detach()
        memo[id(tensor)] = kept
        is_same = is_same and kept is tensor
    if is_same:
        return output
    try:
        return copy.deepcopy(output, memo)
    except Exception:  # an object that cannot be copied is compared as it is
        return output


@dataclass(frozen=True)
class InterpreterCall:
    """Runs a graph by an interpreter class of the user's; each call makes a new one, as it may keep state.

    Raises SubjectError if keyword arguments do not name inputs of the graph.
    """

    kind: Any
    graph_module: fxcore.GraphModule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            values = arguments_in_order(self.graph_module, args, kwargs)
        except CaptureError:
            raise SubjectError(
                f"cannot run {self.kind.__name__}: the graph's inputs do not name the keyword arguments "
                f"{sorted(kwargs)}"
            ) from None
        return self.kind(self.graph_module).run(*values)
