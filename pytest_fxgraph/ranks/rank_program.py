"""The program of one rank: its model, captured while this process takes the rank's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import fxcore
from fxcore.graph import gc_paused
from fxcore.node_data.distributed_types import is_distributed
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.collective_nodes import bytes_of, group_argument, kind_of, name_of_group
from pytest_fxgraph.captures.collective_trace import REDUCTION, is_opaque
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.state_names import tensor_parts
from pytest_fxgraph.captures.step_trace import Step
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.generated_code import copied_graph
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.process_groups import ProcessGroupTexts
from pytest_fxgraph.errors import CaptureError, ChoiceError, RanksError
from pytest_fxgraph.ranks.collectives import Collective, Communicator, collectives_of, communicators_by_name
from pytest_fxgraph.ranks.fake_world import rank_of_fake_world
from pytest_fxgraph.ranks.world import World

# Tensors like the parameter that an optimizer keeps for each parameter: a momentum, or Adam's two averages.
# Source: torch.optim.SGD, Adam and AdamW, which call `torch.zeros_like(parameter)`. Adam's count of steps is left out.
OPTIMIZERS: Mapping[str, int] = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class ProgramRequest:
    """What every rank captures: the builder of its model, its inputs and the frontend."""

    build: Callable[..., Any]
    inputs: Any  # the same on every rank, or a function of the rank
    kwargs: Mapping[str, Any] | None
    frontend: str
    mode: str | None
    world: World
    device: str  # the type of the mesh's devices
    loss: Callable[[Any], torch.Tensor] | None = None  # of the outputs, for a training step
    optimizer: str | None = None  # whose state counts as memory

    def model(self, rank: int) -> Any:
        """Build the model of a rank, which this process is."""
        return self.world.model(self.build, rank, self.device)

    def arguments(self, rank: int) -> Any:
        """Return the inputs of a rank."""
        is_by_rank = callable(self.inputs) and not isinstance(self.inputs, torch.Tensor)
        return self.inputs(rank) if is_by_rank else self.inputs

    def capture_request(self, model: Any, rank: int) -> CaptureRequest:
        """Return the request to capture a rank's model. make_fx traces a whole step, with the hooks of the plan."""
        step = Step(self.mode == "train", self.loss) if self.frontend == "make_fx" else None
        return CaptureRequest.of(model, self.arguments(rank), self.kwargs, self.frontend, mode=self.mode, step=step)


@dataclass(frozen=True)
class StateMemory:
    """The bytes of a rank's state. A rank counts its own parts of distributed tensors alone."""

    parameters: int = 0  # and buffers
    gradients: int = 0
    optimizer: int = 0


@dataclass(frozen=True)
class RankProgram:
    """The graphs of one rank, the collectives in them, and how goldens describe the graph."""

    rank: int
    capture: Capture
    collectives: tuple[Collective, ...]
    placements: Mapping[str, str]  # of distributed parameters and buffers, by path
    readable: fxcore.GraphModule  # with texts for groups of processes, to be read and not to be run
    document: GraphDocument  # of `readable`
    hooked: str = ""  # a module whose hooks call collectives outside of the captured graphs
    state: StateMemory = field(default_factory=StateMemory)


def captured_program(request: ProgramRequest, rank: int) -> RankProgram:
    """Capture the program of one rank of a fake world. Raises RanksError as `program_of_rank` does."""
    with rank_of_fake_world(rank, request.world.size):
        return program_of_rank(request, rank)


def program_of_rank(request: ProgramRequest, rank: int) -> RankProgram:
    """Capture the program of the rank that this process is.

    Raises RanksError with the rank if the model cannot be built or captured.
    """
    # A capture keeps nearly all its objects: without the garbage collector it takes 14 % less time.
    with gc_paused():
        try:
            model = request.model(rank)
        except Exception as error:
            raise RanksError(
                f"cannot build the model of rank {rank}: {type(error).__name__}: {error}; build={_name(request.build)} "
                f"runs once for each of {request.world.size} ranks, while torch.distributed.get_rank() is the rank"
            ) from error
        _refuse_schedule(model, rank)
        state = state_memory(model, is_training=request.mode == "train", optimizer=request.optimizer)
        try:
            capture = captured(request.capture_request(model, rank))
        except CaptureError as error:
            raise RanksError(f"rank {rank}: {_refused(request, model, error)}{error}") from error
        capture.refuse_empty()
        communicators = communicators_by_name([model])
        collectives = collectives_of(capture.graphs, rank, communicators)
        readable = _readable(capture, communicators)
        document = build_document(readable, sources=False)
        hooked = "" if request.frontend == "make_fx" else _hooked(model, request.mode)
        return RankProgram(rank, capture, tuple(collectives), _placements(model), readable, document, hooked, state)


def _refuse_schedule(model: Any, rank: int) -> None:
    if type(model).__module__.startswith("torch.distributed.pipelining."):
        raise RanksError(
            f"rank {rank}: build returns a {type(model).__name__} of torch.distributed.pipelining, which is no module: "
            "it runs a stage once for each micro-batch, with buffers of its own for sends and receives. Return the "
            "module of the stage, with its send and receive in its forward"
        )


def _refused(request: ProgramRequest, model: Any, error: CaptureError) -> str:
    """Return the next step after a frontend failed at a parallel model; nothing for other models."""
    part = _hooked(model, "train") or ("distributed tensors" if _placements(model) else "")
    if part.startswith("FSDPModule") and "'Stream' object has no attribute" in str(error):
        return (
            f"fully_shard of torch {torch.__version__} needs streams, which a CPU does not have; take a later release "
            "of torch, or an accelerator with device='cuda'. The reason: "
        )
    if request.frontend == "make_fx" or not part:
        return ""
    return (
        f"frontend={request.frontend!r} cannot take this model with {part} under torch {torch.__version__}; take "
        "frontend='make_fx', which runs the model and records its collectives. The reason: "
    )


def _hooked(model: Any, mode: str | None) -> str:
    """Return class and path of a module that FSDP gathers or DDP reduces in hooks, which most frontends leave out."""
    kinds = {"FSDPModule", "FullyShardedDataParallel"} | ({"DistributedDataParallel"} if mode == "train" else set())
    for path, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for kind in type(module).__mro__:
            if kind.__name__ in kinds:
                return f"{kind.__name__} {path}".rstrip()
    return ""


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _placements(model: Any) -> dict[str, str]:
    """Return mesh and placements of each distributed tensor of a model's state: `Shard(0) on tp`."""
    if not isinstance(model, nn.Module):
        return {}
    found = {}
    tensors: list[tuple[str, Any]] = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in tensors:
        if is_distributed(tensor):
            mesh, placements = tensor.device_mesh, tensor.placements
            names = mesh.mesh_dim_names or [f"dimension {place}" for place in range(mesh.ndim)]
            pairs = zip(placements, names, strict=True)
            found[name] = ", ".join([f"{_placement_text(placement)} on {dimension}" for placement, dimension in pairs])
    return found


def _placement_text(placement: Any) -> str:
    """Return `Shard(0)`, `Replicate()`, `Partial(sum)`; torch's own texts differ between releases."""
    told = getattr(placement, "dim", getattr(placement, "reduce_op", ""))
    return f"{type(placement).__name__.lstrip('_')}({told})"


def _readable(capture: Capture, communicators: Mapping[str, Communicator]) -> fxcore.GraphModule:
    """Return the graph of a capture with texts for groups of processes and for reductions that C++ holds.

    The names of groups differ between ranks.
    """
    graph_module = capture.as_graph_module()
    groups, reductions = ProcessGroupTexts(), {}
    texts: dict[str, str] = {}  # of groups, by the names of the nodes that name them
    for node in graph_module.graph.nodes:
        if is_opaque(graph_module, node, "ReduceOp"):
            reductions[node] = str(node.meta.get(REDUCTION, "unknown reduction"))
        name = None if kind_of(node) is None else name_of_group(graph_module, group_argument(node))
        if name is not None:
            ranks, dimension, _ = communicators[name]
            texts[node.name] = groups.numbered(name, ranks, dimension)
    if not texts:
        return graph_module

    def arguments(node: fxcore.Node) -> Any:
        given, text = group_argument(node) if node.name in texts else None, texts.get(node.name)
        if given is None:
            return node.args, node.kwargs
        return fxcore.node.map_aggregate((node.args, node.kwargs), lambda value: text if value is given else value)

    copied = copied_graph(graph_module.graph, arguments, reductions)
    for node in reversed(list(copied.nodes)):
        if not node.users and is_opaque(graph_module, node, "ProcessGroup"):
            copied.erase_node(node)
    made = fxcore.GraphModule(graph_module, copied, type(graph_module).__name__)
    made.meta.update(graph_module.meta)
    return made


def check_optimizer(optimizer: str | None, mode: str | None) -> None:
    """Raise ChoiceError for an unknown optimizer, or an optimizer without a training step."""
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise ChoiceError(f"there is no optimizer {optimizer!r}; there are {', '.join(map(repr, OPTIMIZERS))}")
    if optimizer is not None and mode != "train":
        raise ChoiceError(f"optimizer={optimizer!r} belongs to a training step; give mode='train', too")


def state_memory(model: Any, *, is_training: bool, optimizer: str | None) -> StateMemory:
    """Return the memory of a model's state on this rank. Gradients have the sizes of their parameters."""
    if not isinstance(model, nn.Module):
        return StateMemory()
    parameters = [*model.parameters()]
    trained = _bytes([each for each in parameters if each.requires_grad]) if is_training else 0
    states = 0 if optimizer is None else OPTIMIZERS[optimizer]
    return StateMemory(_bytes([*parameters, *model.buffers()]), trained, states * trained)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return bytes_of(part for tensor in tensors for _, part in tensor_parts(tensor))
