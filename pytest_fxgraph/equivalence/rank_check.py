"""The check of `fx_equivalence(..., ranks=)`: the plain model on one rank against a parallel program on many."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.equivalence.check import EquivalenceCheck, eager_failure
from pytest_fxgraph.equivalence.gradients import compare_gradients, cotangent
from pytest_fxgraph.equivalence.inputs import Arguments, fresh_sample
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.preparation import set_mode
from pytest_fxgraph.equivalence.rank_run import (
    Draw,
    Dropout,
    RankJob,
    RankResult,
    State,
    buffers_of,
    draws_of,
    run_jobs,
)
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import OUTPUT
from pytest_fxgraph.equivalence.vacuous_values import could_fail, vacuous_values_error
from pytest_fxgraph.errors import ChoiceError, EagerError
from pytest_fxgraph.grouping import grouped
from pytest_fxgraph.ranks.processes import run_on_ranks
from pytest_fxgraph.ranks.rank_programs import RankPrograms
from pytest_fxgraph.ranks.world import MeshSizes, World, ranks_text

_BY_CHANCE = math.log(1e-6)  # draws that agree with a smaller probability do not agree by chance


@dataclasses.dataclass(frozen=True)
class Ranks:
    """A parallel program for `fx_equivalence(model, inputs, ranks=4, build=build)`.

    `build(rank)` makes the model of a rank in a process of its own, while torch.distributed has a world of gloo
    processes. Its weights must be the plain model's: build it from a deepcopy of the plain model, or seed both alike.
    With `mesh`, sizes by the names of dimensions, `build(rank, mesh)` gets a DeviceMesh. Every rank gets all inputs.
    With `batch`, True or the names of the mesh's dimensions over which data is parallel, a rank gets its part of the
    first dimension. `optimizer(parameters)` makes an optimizer for one step after the gradients.
    """

    build: Callable[..., Any]
    world_size: int
    mesh: MeshSizes | None = None
    batch: bool | str | Sequence[str] = False
    optimizer: Callable[..., Any] | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.world_size, int) or self.world_size < 2:
            raise ChoiceError(f"ranks={self.world_size!r}: a parallel program has a whole number of ranks from 2")
        mesh = self.world.mesh
        unknown = [name for name in self._dimensions if name not in mesh]
        if unknown:
            raise ChoiceError(f"batch={self.batch!r}: the mesh has no dimension {unknown[0]!r}")

    @classmethod
    def of(
        cls, ranks: int | RankPrograms, build: Callable[..., Any] | None, mesh: MeshSizes | None, **others: Any
    ) -> Ranks:
        """Return the program of a number of ranks with its builder, or the program that fx_ranks captured."""
        request = getattr(ranks, "request", None)
        if request is not None:
            return cls(build or request.build, request.world.size, mesh or request.world.mesh or None, **others)
        if build is None or not isinstance(ranks, int):
            raise ChoiceError(
                f"ranks={ranks!r} needs build=, a function that makes the model of a rank: "
                "fx_equivalence(model, inputs, ranks=4, build=lambda rank: parallelized(copy.deepcopy(model)))"
            )
        return cls(build, ranks, mesh, **others)

    @property
    def world(self) -> World:
        """The ranks and their mesh."""
        return World.of(self.world_size, self.mesh)

    @property
    def _dimensions(self) -> tuple[str, ...]:
        return () if isinstance(self.batch, bool) else (self.batch,) if isinstance(self.batch, str) else (*self.batch,)

    @property
    def parts(self) -> int:
        """The number of parts of the batch."""
        if isinstance(self.batch, bool):
            return self.world_size if self.batch else 1
        return math.prod(self.world.mesh[name] for name in self._dimensions)

    def part_of(self, rank: int) -> int:
        """Return the part of the batch that a rank gets."""
        if isinstance(self.batch, bool):
            return rank if self.batch else 0
        part, below = 0, self.world_size
        for name, size in self.world.mesh.items():
            below //= size
            part = part * size + rank // below % size if name in self._dimensions else part
        return part

    def model(self, rank: int) -> Any:
        """Build the model of a rank, in its process."""
        return self.world.model(self.build, rank)


@dataclasses.dataclass(frozen=True)
class _Plain:
    """The run of the plain model for one mode and sample, with the jobs of the ranks."""

    result: RunResult
    context: CheckContext
    jobs: list[RankJob]
    batch: _Batch
    arguments: Arguments
    stepped: Mapping[str, torch.Tensor]  # parameters after a step of the optimizer
    buffers: tuple[State, State]  # before and after the call


@dataclasses.dataclass(frozen=True)
class _Batch:
    """The first dimension of inputs and outputs, in parts."""

    size: int | None  # None without a tensor that has dimensions
    parts: int

    @classmethod
    def of(cls, arguments: Arguments, parts: int) -> _Batch:
        sizes = [tensor.shape[0] for _, tensor in arguments.tensors() if tensor.dim()]
        if parts > 1 and (not sizes or sizes[0] % parts):
            found = f"the first input has a batch of {sizes[0]}" if sizes else "no input has a batch"
            raise ChoiceError(f"cannot give each of {parts} ranks its part of the batch: {found}")
        return cls(next(iter(sizes), None), parts)

    def has(self, value: object) -> bool:
        """Return whether a value is a tensor with a part for each rank."""
        is_tensor = isinstance(value, torch.Tensor) and value.dim() > 0
        return self.parts > 1 and is_tensor and value.shape[0] == self.size  # type: ignore[attr-defined]

    def take(self, value: Any, part: int) -> Any:
        """Return a part of all tensors in a value."""
        return pytree.tree_map(lambda each: each.chunk(self.parts)[part] if self.has(each) else each, value)


def check_ranks(check: EquivalenceCheck, model: Any, ranks: Ranks, modes: Sequence[str | None]) -> None:
    """Compare the model with the program of all ranks in each mode, on all samples.

    Raises MismatchError if anything differs, EagerError if the plain model fails, RanksError if a rank fails or hangs.
    """
    __tracebackhide__ = True
    if ranks.optimizer is not None and not check.grads:
        raise ChoiceError("optimizer= makes a step with gradients; give grads=True as well")
    plain = [_run_plain(check, model, ranks, mode, sample) for mode in modes for sample in range(check.samples)]
    state = [*dict(model.named_parameters()), *dict(model.named_buffers())] if isinstance(model, nn.Module) else []
    by_rank = run_on_ranks(
        run_jobs,
        ranks.world_size,
        args=(ranks.model, [each.jobs for each in plain], frozenset(state), ranks.optimizer),
        timeout=ranks.timeout,
    )
    for number, each in enumerate(plain):
        found = _Comparison(check, model, ranks, each, [results[number] for results in by_rank])
        mismatches = _by_ranks(found.mismatches())
        if mismatches:
            raise mismatch_error(mismatches, each.context)
        if not check.allow_vacuous and not could_fail(each.result, each.arguments, check.comparison):
            raise vacuous_values_error(each.result, check.comparison, each.context)


def _run_plain(check: EquivalenceCheck, model: Any, ranks: Ranks, mode: str | None, sample: int) -> _Plain:
    """Run the plain model, and divide inputs and weights of outputs among the ranks."""
    __tracebackhide__ = True
    seed = check.seed + sample
    arguments = check.arguments if sample == 0 else fresh_sample(check.arguments, seed)
    batch = _Batch.of(arguments, ranks.parts)
    context = CheckContext(f"the program of {ranks.world_size} ranks", mode, sample, check.samples, check.seed)
    if mode is not None:
        set_mode(model, mode, (mode,))
    guard = Snapshot(model)
    draws, before = False, buffers_of(model)
    with globals_kept():
        try:
            settings = RunSettings(arguments, StateNames(guard.state_of(model)), guard, seed, check.grads)
            with Dropout(is_on=mode != "train"):
                result = run_model(model, model, settings)
            if isinstance(result, RunFailure):
                raise eager_failure(result, context) from result.error
            if check.grads and result.gradients is None:
                raise EagerError(f"cannot compare gradients{context}: no output of the model requires grad")
            if mode == "train":
                draws = bool(draws_of(model, arguments))
        finally:
            guard.restore()
            guard.close()
    changed = {name: each.tensor for name, each in result.state.changed.items() if name in before}
    weights = None
    if check.grads:
        outputs = [(path, each) for path, each in tensors_in(result.output, OUTPUT) if each.requires_grad]
        # A rank's loss is a mean over its part: of an output with a part for each rank, each weighs `parts` times more.
        weights = {
            path: cotangent(path, each, seed, each.dtype) * (ranks.parts if batch.has(each) else 1)
            for path, each in outputs
        }
    jobs = []
    for part in map(ranks.part_of, range(ranks.world_size)):
        args, kwargs = batch.take((arguments.args, arguments.kwargs), part)
        jobs.append(RankJob(mode, Arguments(args, kwargs), seed, batch.take(weights, part), draws))
    # Before the ranks start: forks of this process find imported all that the optimizer imports.
    stepped = _stepped(model, result, ranks.optimizer) if ranks.optimizer is not None else {}
    return _Plain(result, context, jobs, batch, arguments, stepped, (before, before | changed))


def _stepped(model: Any, result: RunResult, optimizer: Callable[..., Any]) -> dict[str, torch.Tensor]:
    """Return the parameters of the plain model after a step of its own."""
    named = dict(copy.deepcopy(model).named_parameters())
    for name, parameter in named.items():
        gradient = (result.gradients or {}).get(name)
        parameter.grad = None if gradient is None else gradient.detach().clone()
    optimizer([*named.values()]).step()
    return named


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The runs of the plain model and of all ranks."""

    check: EquivalenceCheck
    model: Any
    ranks: Ranks
    plain: _Plain
    results: Sequence[RankResult]

    def mismatches(self) -> Iterator[tuple[int, Mismatch]]:
        """Yield each difference with its rank."""
        parts: list[dict[str, _Part]] = [{} for _ in self.results]
        expected = dict(self.model.named_parameters()) if isinstance(self.model, nn.Module) else {}
        for name in expected if any(result.state for result in self.results) or self.check.grads else ():
            yield from self._of_parameter(name, expected[name].detach(), parts)
        if "values" in self.check.comparison.checks:
            yield from _of_draws([result.draws for result in self.results])
        for rank, result in enumerate(self.results):
            yield from ((rank, each) for each in self._of_rank(rank, result, parts[rank]))

    def _of_rank(self, rank: int, result: RankResult, parts: Mapping[str, _Part]) -> Iterator[Mismatch]:
        """Compare outputs, gradients and the parameters after a step of one rank."""
        if result.output is not None or all(other.output is None for other in self.results):
            wanted, obtained = self._outputs(rank)  # a stage of a pipeline that is not the last one has none
            yield from dataclasses.replace(self.check.comparison, requires_grad=False).compare(wanted, obtained, OUTPUT)
        plain_before, plain_after = self.plain.buffers
        for name, (before, after) in result.buffers.items():
            # A rank's own part of a buffer, or a constant of the rank, has no counterpart in the plain model.
            if name in plain_before and torch.equal(plain_before[name], before):
                yield from self._of_state(f"buffer {name} after the call", plain_after[name], after)
        if not self.check.grads:
            return
        yield from self._of_inputs(rank, result)
        gradients = self.plain.result.gradients or {}
        expected = {name: part.of(gradients.get(name)) for name, part in parts.items()}
        obtained_gradients = {name: result.gradients.get(name) for name in parts}
        yield from compare_gradients(expected, obtained_gradients, self.check.comparison)
        for name in parts if result.stepped else ():
            whole = parts[name].of(self.plain.stepped[name].detach())
            yield from self._of_state(f"parameter {name} after a step", whole, result.stepped[name])

    def _of_state(self, where: str, wanted: torch.Tensor, obtained: torch.Tensor) -> Iterator[Mismatch]:
        for each in self.check.comparison.of_values().compare_tensors(wanted, obtained, where):
            if each.kind != "stride":
                yield dataclasses.replace(each, kind="state")

    def _outputs(self, rank: int) -> tuple[Any, Any]:
        """Return the plain model's output for a rank's part, and the rank's; other floats are means over the parts."""
        wanted = pytree.tree_map(
            lambda each: each.detach() if isinstance(each, torch.Tensor) else each, self.plain.result.output
        )
        batch, part = self.plain.batch, self.ranks.part_of(rank)
        obtained = self.results[rank].output
        if batch.parts == 1:
            return wanted, obtained
        leaves, spec = pytree.tree_flatten(obtained)
        others = [pytree.tree_flatten(result.output)[0] for result in self.results]
        expected = pytree.tree_flatten(wanted)[0]
        if all(len(each) == len(expected) == len(leaves) for each in others):
            for place, value in enumerate(expected):
                if isinstance(value, torch.Tensor) and value.is_floating_point() and not batch.has(value):
                    leaves[place] = torch.stack([each[place] for each in others]).mean(0)
        return batch.take(wanted, part), pytree.tree_unflatten(leaves, spec)

    def _of_inputs(self, rank: int, result: RankResult) -> Iterator[Mismatch]:
        """Compare the gradients of inputs; of an input without a part for each rank, a rank has a share alone."""
        batch, part = self.plain.batch, self.ranks.part_of(rank)
        expected = {
            path: None if each is None else batch.take(each, part) * batch.parts
            for path, each in (self.plain.result.gradients or {}).items()
            if path in result.of_inputs and (batch.parts == 1 or batch.has(each))
        }
        of_rank = {path: result.of_inputs[path] for path in expected}
        # A stage that receives its input from another rank does not read its own.
        if any(each is not None for each in of_rank.values()):
            yield from compare_gradients(expected, of_rank, self.check.comparison, expected)

    def _of_parameter(
        self, name: str, whole: torch.Tensor, parts: Sequence[dict[str, _Part]]
    ) -> Iterator[tuple[int, Mismatch]]:
        """Compare a parameter before the call, and note in `parts` the part that each rank holds."""
        holders = [rank for rank, result in enumerate(self.results) if name in result.state]
        if not holders:
            yield 0, Mismatch("state", f"parameter {name}", "is on no rank")
        # Of each dimension that is split, the elements that some rank holds.
        held: dict[int, set[int]] = {}
        ahead = 0
        for rank in holders:
            local = self.results[rank].state[name]
            found = _parts_equal_to(local, whole, ahead)
            if not found:
                yield rank, Mismatch("state", f"parameter {name}", _OTHER_WEIGHTS)
                continue
            part = parts[rank][name] = found[0]
            ahead += part.length
            for each in found if part.length < part.size else ():
                held.setdefault(part.dimension, set()).update(range(each.start, each.start + each.length))
        is_whole = any(part[name].length == part[name].size for part in parts if name in part)
        for dimension, elements in held.items() if not is_whole else ():
            missing = sorted(set(range(whole.shape[dimension])) - elements)
            if missing:
                where = f"{missing[0]} to {missing[-1]}" if len(missing) > 1 else str(missing[0])
                told = f"has its elements {where} of dimension {dimension} on no rank"
                yield 0, Mismatch("state", f"parameter {name}", told)


_OTHER_WEIGHTS = (
    "has other values in the ranks than in eager before the first call: build the ranks' model from a deepcopy of the "
    "plain model, or seed both alike"
)


@dataclasses.dataclass(frozen=True)
class _Part:
    """The part of a parameter that a rank holds: elements of one dimension. All numbers are 0 for the whole."""

    dimension: int
    start: int
    length: int
    size: int  # of the dimension

    def of(self, whole: Any) -> Any:
        """Return the part of a tensor of the parameter's shape; None of None."""
        is_whole = whole is None or self.length == self.size
        return whole if is_whole else whole.narrow(self.dimension, self.start, self.length)


def _parts_equal_to(local: torch.Tensor, whole: torch.Tensor, ahead: int) -> list[_Part]:
    """Return the parts of a parameter that equal a rank's tensor; `ahead` is the number of elements of earlier ranks.

    The part behind those of earlier ranks stands first, because several parts may have equal values: a bias of zeros.
    """
    if whole.dim() != local.dim():
        return []
    split = [dim for dim in range(whole.dim()) if whole.shape[dim] != local.shape[dim]]
    if not split:
        return [_Part(0, 0, 0, 0)] if torch.equal(whole, local) else []
    dimension = split[0]
    size, length = whole.shape[dimension], local.shape[dimension]
    if len(split) > 1 or not length:
        return []
    # Parts begin behind those of earlier ranks, else where the first element stands.
    same = (whole.movedim(dimension, 0) == local.select(dimension, 0)).reshape(size, -1).all(1)
    for starts in ([ahead % size], same.nonzero().flatten().tolist()):
        parts = [_Part(dimension, start, length, size) for start in starts if start + length <= size]
        found = [part for part in parts if torch.equal(part.of(whole), local)]
        if found:
            return found
    return []


def _of_draws(by_rank: Sequence[Sequence[Draw]]) -> Iterator[tuple[int, Mismatch]]:
    """Yield the calls of dropout that draw alike for other values, or differently for equal values."""
    count = min(map(len, by_rank))
    for number in range(count):
        first, where = by_rank[0][number], f"dropout {number + 1} of {count}"
        alike: dict[int, float] = {}  # ranks that draw as rank 0 does for other values: the chance, as a logarithm
        for rank in range(1, len(by_rank)):
            draw = by_rank[rank][number]
            if draw.given.shape != first.given.shape:
                continue
            shown = (draw.given != 0) & (first.given != 0)
            is_same_draw = torch.equal(draw.zeros & shown, first.zeros & shown)
            if not torch.equal(draw.given, first.given):
                if is_same_draw:
                    chance = draw.probability**2 + (1 - draw.probability) ** 2
                    alike[rank] = int(shown.sum()) * math.log(chance)
            elif not is_same_draw:
                told = "drops other elements than on rank 0 of equal values: give these ranks one seed"
                yield rank, Mismatch("rng", where, told)
        if sum(alike.values()) < _BY_CHANCE:
            told = (
                "drops the same elements as on rank 0 of different values: give each of these ranks a seed of its own"
            )
            yield from ((rank, Mismatch("rng", where, told)) for rank in alike)


def _by_ranks(found: Iterator[tuple[int, Mismatch]]) -> list[Mismatch]:
    """Put equal findings of several ranks together, and name the ranks."""
    together = grouped(found, lambda each: (each[1].kind, each[1].where))
    made = []
    for each in together.values():
        first = each[0][1]
        text = ranks_text(sorted({rank for rank, _ in each}))
        description = first.description.replace("in the graph", "on the ranks").replace("the graph", "the ranks")
        made.append(dataclasses.replace(first, where=f"{first.where} (rank {text})", description=description))
    return made
