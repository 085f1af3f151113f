"""The parallel program of a check on one rank: its model is built, called and differentiated; whole tensors return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxcore.state.readings import seed_generators
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.preparation import set_mode
from pytest_fxgraph.equivalence.tolerance import OUTPUT

# Modules that hold a model under this name; the plain model has no such step in its paths.
_WRAPPERS = frozenset(("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
_DROPOUTS = (
    *(torch.dropout, functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d),
    *(functional.alpha_dropout, functional.feature_alpha_dropout),
)

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class RankJob:
    """One mode and sample of a check, for one rank."""

    mode: str | None
    arguments: Arguments  # the rank's part of the batch
    seed: int
    cotangents: Mapping[str, torch.Tensor] | None  # by output path, of the rank's part; None without gradients
    draws: bool  # record what dropout draws


@dataclass(frozen=True)
class Draw:
    """One call of dropout: its input, and the places of the output that are zero."""

    given: torch.Tensor
    zeros: torch.Tensor
    probability: float


@dataclass(frozen=True)
class RankResult:
    """What one rank made of a job. State and gradients have the names of the plain model."""

    state: State  # before the call
    output: Any
    gradients: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    of_inputs: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    stepped: State = field(default_factory=dict)  # parameters after a step of the optimizer
    draws: tuple[Draw, ...] = ()
    buffers: Mapping[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)  # before and after the call


def run_jobs(
    rank: int,
    build: Callable[[int], Any],
    jobs: Sequence[Sequence[RankJob]],
    names: frozenset[str],
    optimizer: Callable[..., Any] | None,
) -> list[RankResult]:
    """Build the model anew for each job of the rank and run it. `names` are the names of the plain model's state.

    Generators are seeded before the model is built and not after that, because a program may seed its ranks itself.
    """
    results = []
    for job in (of_ranks[rank] for of_ranks in jobs):
        seed_generators(job.seed)
        model = build(rank)
        if job.mode is not None:
            set_mode(model, job.mode)
        results.append(_run(model, job, names, optimizer))
    return results


def _run(model: Any, job: RankJob, names: frozenset[str], optimizer: Callable[..., Any] | None) -> RankResult:
    state, before = _whole_state(model, names), buffers_of(model, names)
    steps = optimizer([*model.parameters()]) if optimizer is not None else None
    copied = copy_arguments(job.arguments, with_gradients=job.cotangents is not None)
    with Dropout(is_on=job.mode != "train"):
        output = _whole(model(*copied.arguments.args, **copied.arguments.kwargs))
        if job.cotangents is not None:
            sources = {path: value for path, value in tensors_in(output, OUTPUT) if value.requires_grad}
            known = [path for path in sources if path in job.cotangents]
            # Only backward() runs the hooks by which DDP and FSDP reduce gradients.
            torch.autograd.backward([sources[path] for path in known], [job.cotangents[path] for path in known])
    of_inputs = {
        path: None if leaf.grad is None else leaf.grad.as_strided(*view).clone()
        for path, (leaf, view) in copied.leaves.items()
    }
    gradients = {name: None if each.grad is None else _local(_whole(each.grad)) for name, each in _named(model, names)}
    if steps is not None:
        steps.step()
    after = buffers_of(model, names)
    buffers = {name: (before[name], after[name]) for name in before.keys() & after.keys()}
    stepped = _whole_state(model, names) if steps is not None else {}
    draws = draws_of(model, job.arguments) if job.draws else ()
    return RankResult(state, _detached(output), gradients, of_inputs, stepped, draws, buffers)


class Dropout(TorchFunctionMode):
    """Records the calls of dropout, or leaves them out, as all ranks of a program and one process draw differently."""

    def __init__(self, *, is_on: bool) -> None:
        super().__init__()
        self._is_on = is_on
        self.draws: list[Draw] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function; dropout returns its input where it is off."""
        kwargs = kwargs or {}
        if func not in _DROPOUTS:
            if not self._is_on and kwargs.get("dropout_p"):
                kwargs = {**kwargs, "dropout_p": 0.0}
            return func(*args, **kwargs)
        given = args[0] if args else kwargs["input"]
        if not self._is_on:
            return given
        made = func(*args, **kwargs)
        if type(given) is torch.Tensor:
            probability = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            self.draws.append(Draw(given.detach().clone(), made.detach() == 0, float(probability)))
        return made


def draws_of(call: Callable[..., Any], arguments: Arguments) -> tuple[Draw, ...]:
    """Call once more with dropout on, and return its draws."""
    copied = copy_arguments(arguments).arguments
    with torch.no_grad(), Dropout(is_on=True) as recorded:
        call(*copied.args, **copied.kwargs)
    return tuple(recorded.draws)


def _named(model: Any, names: Collection[str], kind: str = "parameters") -> list[tuple[str, torch.Tensor]]:
    """List the parameters, or the buffers, of a rank's model by the plain model's names."""
    named = getattr(model, f"named_{kind}")() if isinstance(model, nn.Module) else ()
    return [(name if name in names else plain_name(name), each) for name, each in named]


def plain_name(name: str) -> str:
    """Return a path without the steps of modules that wrap a model."""
    return ".".join([step for step in name.split(".") if step not in _WRAPPERS])


def _whole_state(model: Any, names: Collection[str], kind: str = "parameters") -> State:
    return {name: _local(_whole(each)).clone() for name, each in _named(model, names, kind)}


def buffers_of(model: Any, names: Collection[str] = ()) -> State:
    """Return copies of a model's whole buffers by the plain model's names."""
    return _whole_state(model, names, "buffers")


def _whole(value: Any) -> Any:
    """Gather the distributed tensors of a value. All ranks call this in the same order."""
    return pytree.tree_map(lambda each: each.full_tensor() if hasattr(each, "full_tensor") else each, value)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a gathered tensor, which may still wait for its collective."""
    tensor = tensor.detach()
    return tensor.wait() if hasattr(tensor, "wait") else tensor


def _detached(value: Any) -> Any:
    return pytree.tree_map(lambda each: _local(each).clone() if isinstance(each, torch.Tensor) else each, value)
