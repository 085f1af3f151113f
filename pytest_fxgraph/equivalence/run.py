"""One lane: a single call of model or graph, and everything that can be seen of it afterwards."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from pytest_fxgraph.equivalence.aliasing import Sharing, has_storage, sharing_of_outputs, storage_of
from pytest_fxgraph.equivalence.gradients import Gradients, differentiable_parameters, gradients_of
from pytest_fxgraph.equivalence.inputs import ArgumentCopy, Arguments, copy_arguments, copy_of_view
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.operator_trace import positional
from pytest_fxgraph.equivalence.rng import RngState, seed_all
from pytest_fxgraph.equivalence.state.changes import StateAfter, StateNames, state_after
from pytest_fxgraph.equivalence.state.generators import Moved
from pytest_fxgraph.equivalence.state.guard import Findings, StateGuard
from pytest_fxgraph.equivalence.state.module_state import ModuleState
from pytest_fxgraph.errors import SubjectError


@dataclass(frozen=True)
class RunResult:
    """What a call returned and left behind."""

    output: Any
    arguments: Arguments  # as the call left them
    sharing: Sharing
    state: StateAfter
    rng: RngState
    generators: Moved  # the model's own, as far as they were drawn from
    gradients: Gradients | None  # None where none were asked for, or no output asks for them
    changed_unseen: bool  # parameters were written through `.data`, by this lane or one before that trusted versions


@dataclass(frozen=True)
class RecordedRun:
    """Takes the place of a model that cannot be run again, because it cannot be pickled."""

    result: RunResult


@dataclass(frozen=True)
class RunFailure:
    """A call that raised."""

    step: str  # "forward" or "backward"
    error: Exception


@dataclass(frozen=True)
class RunSettings:
    """What is the same for all lanes of one comparison."""

    arguments: Arguments
    names: StateNames
    guard: StateGuard
    seed: int
    grads: bool
    trust_versions: bool = False  # saves reading all parameters; the lane after it must read them


def run_model(call: Callable[..., Any] | RecordedRun, root: object, settings: RunSettings) -> RunResult | RunFailure:
    """Call a model or graph on its own copy of the inputs, and put its state back afterwards."""
    if isinstance(call, RecordedRun):
        return call.result
    copied = copy_arguments(settings.arguments, with_gradients=settings.grads)
    seed_all(settings.seed)
    step = "forward"
    found: Findings | None = None
    try:
        with _gradient_mode(settings.grads):
            output = call(*copied.arguments.args, **copied.arguments.kwargs)
            rng = RngState.now()
            found = settings.guard.look(root, trust_versions=settings.trust_versions)
            state = state_after(settings.guard.state_of(root), found.now, found.changed, settings.names)
            sharing = _sharing(output, copied, found.now, settings.names)
            step = "backward"
            gradients = _gradients(output, found.now, copied, settings)
        output = _kept_apart(output, found.now, settings.grads)
    except Exception as error:
        return RunFailure(step, error)
    finally:
        # A backward may have run hooks of the user's, and a failed call may have stopped anywhere: look again.
        settings.guard.restore(None if settings.grads else found)
    return RunResult(output, copied.arguments, sharing, state, rng, found.generators, gradients, found.changed_unseen)


def _gradients(output: object, now: ModuleState, copied: ArgumentCopy, settings: RunSettings) -> Gradients | None:
    if not settings.grads:
        return None
    return gradients_of(output, differentiable_parameters(now, settings.names), copied, settings.seed)


@contextlib.contextmanager
def _gradient_mode(grads: bool) -> Iterator[None]:
    """Record gradients where they are asked for; else leave the caller's mode (no_grad, inference) as it is."""
    if not grads:
        yield
        return
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _sharing(output: object, copied: ArgumentCopy, now: ModuleState, names: StateNames) -> Sharing:
    outputs = tensors_in(output, "output")
    read = {storage_of(tensor) for _, tensor in outputs if has_storage(tensor)}
    of_state = {
        storage: [(names.name(state), state.tensor) for state in now.by_storage[storage]]
        for storage in read & now.by_storage.keys()
    }
    return sharing_of_outputs(outputs, copied.arguments.tensors(), of_state)


def _kept_apart(output: Any, now: ModuleState, grads: bool) -> Any:
    """Give the output as it can be kept: putting the state back must not change it, and unless gradients are compared
    it must not hold all activations in memory, through autograd, while the next lane runs.
    """
    memo: dict[int, Any] = {}
    is_same = True
    for _, tensor in tensors_in(output, "output"):
        kept = tensor
        if has_storage(tensor) and storage_of(tensor) in now.by_storage:
            kept = copy_of_view(tensor)
        elif tensor.grad_fn is not None and not grads:
            kept = tensor.detach()
        memo[id(tensor)] = kept
        is_same = is_same and kept is tensor
    if is_same:
        return output
    try:
        return copy.deepcopy(output, memo)
    except Exception:  # an object among the outputs that cannot be copied: better compared as it is than not at all
        return output


@dataclass(frozen=True)
class InterpreterCall:
    """Runs a graph through an interpreter of the user's, a fresh one for each call, as it may keep state."""

    kind: Any
    graph_module: fxcore.GraphModule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = positional(self.graph_module.graph, args, kwargs)
        if values is None:
            raise SubjectError(
                f"cannot run {self.kind.__name__}: the graph's inputs do not name the keyword arguments "
                f"{sorted(kwargs)}"
            )
        return self.kind(self.graph_module).run(*values)
