"""The fixture `fx_ranks`: captures one program on many ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from pytest_fxgraph.arguments import Mode
from pytest_fxgraph.choices import Frontend
from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.ranks.rank_program import ProgramRequest, captured_program, check_optimizer
from pytest_fxgraph.ranks.rank_programs import RankPrograms
from pytest_fxgraph.ranks.sent_programs import programs_of_processes
from pytest_fxgraph.ranks.world import MeshSizes, World


class FxRanks:
    """Captures one program on many ranks: the fixture `fx_ranks`."""

    def __init__(self, marked: Callable[[], tuple[int | None, MeshSizes | None]] = lambda: (None, None)) -> None:
        """Take a function that returns the test's number of ranks and mesh, for calls that give neither."""
        self._marked = marked

    def __call__(
        self,
        build: Callable[..., Any],
        inputs: Any = None,
        *,
        world_size: int | None = None,
        mesh: MeshSizes | None = None,
        ranks: Literal["all"] | Iterable[int] = "all",
        kwargs: Mapping[str, Any] | None = None,
        frontend: Frontend = "make_fx",
        mode: Mode | None = None,
        loss: Callable[[Any], Any] | None = None,
        optimizer: Literal["sgd", "sgd_momentum", "adam", "adamw"] | None = None,
        backend: Literal["fake", "gloo"] = "fake",
        device: str = "cpu",
        timeout: float = 60.0,
    ) -> RankPrograms:
        """Build and capture the program of each rank, and return all programs as one subject.

        `world_size` is the number of ranks; it follows from the sizes of `mesh`. Without both, the marker
        `fx(world_size=..., mesh=...)` of a test gives them. `build(rank)` makes the model of a rank while this process
        takes the rank's place, as `torch.distributed.get_rank()` and the variables RANK, LOCAL_RANK and WORLD_SIZE say.
        With `mesh`, the sizes of a device mesh by the names of its dimensions ({"dp": 2, "tp": 4}, or a tuple of
        sizes), `build(rank, mesh)` gets the DeviceMesh. `inputs` is a tuple of positional arguments, one tensor, or a
        function of the rank that returns either. `ranks` are the ranks to capture. The frontend "make_fx" sees each
        collective that an eager run calls. With it, mode="train" captures a training step as one graph: forward, loss
        and backward. The graph returns the loss and the gradients by parameter path. `loss` maps the outputs to a
        scalar; the default is the sum of all floating-point outputs. `optimizer` is the optimizer whose state `.cost`
        counts as memory. With backend="gloo" each rank is a process, and collectives exchange tensors: for a model that
        depends on their values. A rank that waits for longer than `timeout` seconds is then an error.

        Raises RanksError if torch has no torch.distributed, or a rank cannot be built or captured; ChoiceError for a
        wrong word, rank or size.
        """
        __tracebackhide__ = True
        if backend not in ("fake", "gloo"):
            raise ChoiceError(
                f"there is no backend {backend!r}; there are 'fake', which exchanges nothing in one process, and "
                "'gloo', with a process of this machine for each rank"
            )
        if backend == "gloo" and frontend != "make_fx":
            raise ChoiceError(
                f"backend='gloo' records a run of each rank, as frontend='make_fx' does; frontend={frontend!r} records "
                "none. Leave the frontend out, or take backend='fake'"
            )
        if loss is not None and (frontend, mode) != ("make_fx", "train"):
            raise ChoiceError(
                "loss= is for a training step: give mode='train' and frontend='make_fx', or leave loss out"
            )
        check_optimizer(optimizer, mode)
        if world_size is None and mesh is None:
            world_size, mesh = self._marked()
        world = World.of(world_size, mesh)
        chosen = _chosen_ranks(ranks, world.size)
        request = ProgramRequest(build, inputs, kwargs, frontend, mode, world, device, loss, optimizer)
        if backend == "gloo":
            return RankPrograms(frontend, world, programs_of_processes(request, chosen, timeout), request)
        return RankPrograms(frontend, world, [captured_program(request, rank) for rank in chosen], request)


def _chosen_ranks(ranks: Literal["all"] | Iterable[int], world_size: int) -> list[int]:
    if isinstance(ranks, str):
        if ranks != "all":
            raise ChoiceError(f"ranks={ranks!r}: expected 'all' or numbers of ranks such as [0, 1]")
        return list(range(world_size))
    chosen = sorted(set(ranks))
    wrong = [rank for rank in chosen if rank not in range(world_size)]
    if wrong or not chosen:
        raise ChoiceError(
            f"ranks={chosen}: there are the ranks 0 to {world_size - 1}" + ("" if chosen else "; name one at least")
        )
    return chosen
