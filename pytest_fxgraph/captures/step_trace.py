"""One step of a model under make_fx, with the model's own state: a forward, a forward with its backward, a whole step.

The trace leaves the state where it is, because the hooks of FSDP and DDP keep references to it. make_fx takes each
tensor of the state for a constant; the graph gets the name of the state whose memory a constant is, or is a view of.

The graph of a whole training step computes new state from old, and ends with the updates of the state. The step is
recorded as torch runs it, with in-place operators. A second trace of this record makes all operators functional: each
state tensor is read once, and written once by a `copy_` at the end.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.collective_trace import PROXIES, collectives_noted
from pytest_fxgraph.captures.module_paths import module_paths_noted
from pytest_fxgraph.captures.state_names import placed, reassembled, tensor_parts, with_named_state
from pytest_fxgraph.captures.torch_internals import one_mode_for_values, part_of_torch, traced_by_make_fx
from pytest_fxgraph.captures.train_step import PHASE, STEPS, TrainStep, summed
from pytest_fxgraph.errors import CaptureError

_CALLS = "nn_module_stack"
_NO_NAME = re.compile(r"\W+")


@dataclass(frozen=True)
class Step:
    """The step to trace. `loss` maps the outputs to a scalar; by default it is the sum of all floating outputs."""

    is_training: bool = False
    loss: Callable[[Any], torch.Tensor] | None = None


def traced_step(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], step: Step, decompositions: Mapping[Any, Any] | None
) -> fxcore.GraphModule:
    """Return the graph of a step. A training step returns the loss and a dict of the gradients by parameter path.

    The gradients of the parameters are left behind; the caller restores them.
    """
    parameters = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outputs = model(*args, **kwargs)
        if not step.is_training:
            return pytree.tree_map(local_part, outputs)
        loss = summed(outputs) if step.loss is None else step.loss(outputs)
        torch.autograd.backward(loss)
        return local_part(loss), {path: local_part(parameter.grad) for path, parameter in parameters.items()}

    for parameter in parameters.values() if step.is_training else ():
        parameter.grad = None
    return _recorded_on_state(model, run, (args, kwargs), decompositions, step.is_training)


def _recorded_on_state(
    model: Any, run: Callable[..., Any], call: Any, decompositions: Mapping[Any, Any] | None, is_training: bool
) -> fxcore.GraphModule:
    """Record a function that uses a model, whose state stays in place; the graph reads the state by its names.

    `call` is the function's arguments, (args, kwargs). A tensor that wraps others is handed over by its parts.
    """
    leaves, structure = pytree.tree_flatten(call)

    def run_on_parts(*flat: Any) -> Any:
        parts = iter(flat)
        return run(*pytree.tree_unflatten([reassembled(leaf, parts) for leaf in leaves], structure))

    state = _State(model)
    scratch: list[torch.Tensor] = []
    if is_training:
        _register_hooks(model, scratch)
    inputs = [part for value in leaves for _, part in tensor_parts(value)]
    with one_mode_for_values([*inputs, *state.parameters.values()]):
        with _followed_parameters(), collectives_noted(), module_paths_noted(model), _compiled_parts_as_written():
            made = traced_by_make_fx(run_on_parts, inputs, is_symbolic=False, decompositions=decompositions)
        graph_module: fxcore.GraphModule = interop.from_torch(made)
        _without_profiler(graph_module.graph)
        _name_constants(graph_module, state, scratch)
    graph_module.recompile()
    return graph_module


def exchanges_parameters(model: Any) -> bool:
    """Return whether FSDP2 exchanges parameters of a model in each forward."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return any(kind.__name__ == "FSDPModule" for module in modules for kind in type(module).__mro__)


class _State:
    """The tensors of a model's state by name, as they are before the trace: FSDP exchanges parameters in a step."""

    def __init__(self, model: Any) -> None:
        is_module = isinstance(model, nn.Module)
        self.parameters: dict[str, nn.Parameter] = dict(model.named_parameters()) if is_module else {}
        named = [*self.parameters.items(), *(model.named_buffers() if is_module else ())]
        self._parts: dict[int, list[tuple[str, torch.Tensor]]] = {}
        for name, tensor in named:
            for path, part in tensor_parts(tensor, name):
                self._parts.setdefault(_memory(part), []).append((path, part))

    def of_memory(self, value: torch.Tensor) -> tuple[str, torch.Tensor] | None:
        """Return path and tensor of the state in whose memory a value is: the same tensor, or one to view it by."""
        found = self._parts.get(_memory(value), [])
        return next((each for each in found if _layout(each[1]) == _layout(value)), found[0] if found else None)


def _memory(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()


def local_part(value: Any) -> Any:
    """Return the tensor of this rank that an output is, after the collective that makes it."""
    while isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, nn.Parameter):
        if hasattr(value, "trigger_wait"):
            value = value.trigger_wait()
        elif hasattr(value, "_local_tensor"):
            value = value._local_tensor
        else:
            break
    return value


def _compiled_parts_as_written() -> contextlib.AbstractContextManager[None]:
    """Let compiled models and parts run as they are written, because make_fx does not see into compiled code."""
    config: Any = sys.modules.get("torch._dynamo.config")  # an import would take seconds, and nothing is compiled yet
    if not hasattr(config, "error_on_nested_fx_trace"):
        return contextlib.nullcontext()
    patched: contextlib.AbstractContextManager[None] = config.patch(error_on_nested_fx_trace=False)
    return patched


@contextlib.contextmanager
def _followed_parameters() -> Iterator[None]:
    """Let make_fx know that a parameter made of a tensor is this tensor. torch makes parameters without an operator."""
    current = part_of_torch(PROXIES, "get_proxy_mode", "the trace of a step")
    slot = part_of_torch(PROXIES, "get_proxy_slot", "the trace of a step")
    set_slot = part_of_torch(PROXIES, "set_proxy_slot", "the trace of a step")
    original = nn.Parameter.__new__

    def followed(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        made = original(cls, data, requires_grad)
        mode = current()
        known = None if mode is None or data is None else slot(data, mode.tracer, None)
        if known is not None and slot(made, mode.tracer, None) is None:
            set_slot(made, mode.tracer, known)
        return made

    with patch.object(nn.Parameter, "__new__", followed):
        yield


def _register_hooks(model: Any, scratch: list[torch.Tensor]) -> None:
    """Give each DistributedDataParallel of a model a hook that calls its collective in Python.

    torch's own default takes the result of the collective from its Work, and the Work of a fake group has none. The
    hook puts the buckets of gradients in `scratch`. A hook of the user stays.
    """
    parallel = getattr(nn.parallel, "DistributedDataParallel", ())
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, parallel) and not getattr(module, "_comm_hooks", ()):
            # torch refuses hooks with annotations of other types than its own.
            module.register_comm_hook(module.process_group, lambda group, bucket: _averaged(group, bucket, scratch))


def _averaged(group: Any, bucket: Any, scratch: list[torch.Tensor]) -> Any:
    gradients = bucket.buffer()
    scratch.append(gradients)
    gradients.div_(group.size())
    torch.distributed.all_reduce(gradients, group=group)
    finished: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    finished.set_result(gradients)
    return finished


def _without_profiler(graph: fxcore.Graph) -> None:
    """Erase the marks for torch's profiler."""
    for node in reversed(list(graph.nodes)):
        if str(node.target).startswith("profiler._record_function") and not node.users:
            graph.erase_node(node)


def _name_constants(graph_module: fxcore.GraphModule, state: _State, scratch: Iterable[torch.Tensor]) -> None:
    """Replace constants by the state that they are in the memory of; buckets of gradients by fresh memory."""
    graph = graph_module.graph
    buckets = {_memory(each): each for each in scratch}
    made: dict[Any, fxcore.Node] = {}
    replaced: set[str] = set()
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = getattr(graph_module, str(node.target), None)
        if not isinstance(value, torch.Tensor):
            continue
        memory, found = _memory(value), state.of_memory(value)
        with graph.inserting_before(node):
            if found is not None:
                base, tensor = found
                source = made.get(base) or _read_state(graph_module, base, tensor, state)
                made[base] = source
            elif memory in buckets:
                tensor = buckets[memory]
                source = made.get(memory) or _fresh(graph, tensor)
                made[memory] = source
            else:
                continue
            if _layout(tensor) != _layout(value):
                key = source, _layout(value)
                source = made.get(key) or _view(graph, source, value)
                made[key] = source
        stack = {key: value for key, value in node.meta.items() if key == _CALLS}
        for each in (source, *source.all_input_nodes):  # a view and the state that it reads
            each.meta = {**stack, **each.meta}  # the first reader's
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        replaced.add(str(node.target))
    for name in replaced:
        delattr(graph_module, name)


def _read_state(graph_module: fxcore.GraphModule, path: str, value: torch.Tensor, state: _State) -> fxcore.Node:
    placed(graph_module, path, state.parameters.get(path, value))
    return _described(graph_module.graph.get_attr(path), value)


def _fresh(graph: fxcore.Graph, value: torch.Tensor) -> fxcore.Node:
    options = {"dtype": value.dtype, "device": value.device}
    made = graph.call_function(torch.ops.aten.empty.memory_format, (list(value.shape),), options)
    return _described(made, value)


def _view(graph: fxcore.Graph, source: fxcore.Node, value: torch.Tensor) -> fxcore.Node:
    arguments = (source, list(value.shape), list(value.stride()), value.storage_offset())
    return _described(graph.call_function(torch.ops.aten.as_strided.default, arguments), value)


def _described(node: fxcore.Node, value: torch.Tensor) -> fxcore.Node:
    node.meta["val"] = part_of_torch(PROXIES, "extract_val", "the form of a value")(value.detach())
    return node


# The graph of a whole training step: a second trace of the record makes all operators functional.


def step_graph(
    step: TrainStep, args: tuple[Any, ...], kwargs: dict[str, Any], decompositions: Mapping[Any, Any] | None
) -> fxcore.GraphModule:
    """Return the graph of a step. It takes the step's inputs, returns the loss, and updates the state it shares.

    The values of the state are those of after the step; the caller restores them.
    """
    recorded = _recorded(step, args, kwargs, decompositions)
    leaves = pytree.tree_leaves((args, kwargs))
    paths = list(dict.fromkeys(node.target for node in recorded.graph.nodes if node.op == "get_attr"))
    held = {path: value for path in paths if (value := _tensor_at(step, path)) is not None}
    values = [value.detach().clone() for value in held.values()]

    def replay(*given: Any) -> Any:
        state = dict(zip(held, given, strict=False))
        return _Replay(recorded, state).run(*given[len(held) :], enable_io_processing=False)

    functional = part_of_torch("torch.func", "functionalize", "the graph of a step")(replay)
    made = traced_by_make_fx(functional, [*values, *leaves], is_symbolic=False, decompositions=None)
    graph_module: fxcore.GraphModule = interop.from_torch(made)
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    named = {node.name: path for node, path in zip(placeholders, held, strict=False)}
    for node, name in zip(placeholders[len(held) :], step.input_names(args, kwargs), strict=True):
        node.target = node.name = _NO_NAME.sub("_", name).strip("_")
    graph_module = with_named_state(graph_module, named, step)
    for path, parameter in list(graph_module.named_parameters()):
        # The graph writes into the parameters' memory, which autograd refuses for a parameter itself.
        placed(graph_module, path, nn.Parameter(parameter.detach(), requires_grad=False))
    _without_detached(graph_module.graph)
    _mark_phases(graph_module.graph)
    graph_module.graph._tracer_cls = None  # make_fx made up the names of inputs, and these have the user's
    graph_module = fxcore.GraphModule(graph_module, graph_module.graph, "TrainStep")  # with the holders that copies get
    graph_module.meta[STEPS] = step.parts_of_step.steps
    return graph_module


def _recorded(
    step: TrainStep, args: tuple[Any, ...], kwargs: dict[str, Any], decompositions: Mapping[Any, Any] | None
) -> fxcore.GraphModule:
    """Record a step with its in-place operators, and mark each node with its phase."""

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        with _marked(name):
            try:
                yield
            except RuntimeError as error:
                if name != "optimizer" or "_local_scalar_dense" not in str(error):
                    raise
                raise CaptureError(
                    f"the step of {type(step.parts_of_step.optimizer).__name__} asks for the number in a tensor, which "
                    "a graph cannot hold; SGD does so for a rate that is a tensor, unless it has foreach=True"
                ) from error

    return _recorded_on_state(step, partial(step.run_phases, phase=phase), (args, kwargs), decompositions, True)


@contextlib.contextmanager
def _marked(phase: str, calls: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Mark the nodes that make_fx records in a `with` block with a phase, unless they have one, and modules."""
    mode = part_of_torch(PROXIES, "get_proxy_mode", "the graph of a step")()
    nodes = mode.tracer.graph.nodes
    last = next(iter(reversed(nodes)), None)
    yield
    for node in reversed(nodes):
        if node is last:
            break
        node.meta.setdefault(PHASE, phase)
        if calls is not None:
            node.meta[_CALLS] = calls


class _Replay(fxcore.Interpreter):
    """Runs a recorded step on other state, and marks the new trace with the phases and modules of the record."""

    def __init__(self, recorded: fxcore.GraphModule, state: Mapping[str, torch.Tensor]) -> None:
        super().__init__(recorded)
        self._state = state

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the state that the trace follows; the module's own value for a constant."""
        return self._state[target] if target in self._state else super().get_attr(target, args, kwargs)

    def run_node(self, n: fxcore.Node) -> Any:
        """Run a node in its phase and its calls of modules."""
        with _marked(n.meta.get(PHASE, "forward"), n.meta.get(_CALLS)):
            return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function; for a batch norm, the operator whose schema tells of its writes into the buffers."""
        if target is torch.ops.aten.native_batch_norm.default and args[3] is not None and args[5]:
            target = torch.ops.aten._native_batch_norm_legit.default
        if str(target).startswith("aten._fused_"):
            return _updated(target, args, kwargs)
        return super().call_function(target, args, kwargs)


def _updated(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call the functional form of a fused optimizer, and copy its results: functionalize refuses empty lists."""
    functional = getattr(getattr(torch.ops.aten, str(target._schema.name).removeprefix("aten::").rstrip("_")),
                         target._overloadname)  # fmt: skip
    results = functional(*args, **kwargs)
    written = [each for each, argument in zip(args, target._schema.arguments, strict=False)
               if argument.alias_info is not None and argument.alias_info.is_write]  # fmt: skip
    for tensors, values in zip(written, results, strict=True):
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def _without_detached(graph: fxcore.Graph) -> None:
    """Erase the marks of autograd, and values that nobody reads. Torch marks with detach, from 2.14 with alias."""
    for node in graph.nodes:
        if node.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            node.replace_all_uses_with(node.args[0])
    graph.eliminate_dead_code()


def _tensor_at(step: TrainStep, path: str) -> torch.Tensor | None:
    """Return the state of a step at a path; None for a constant of the trace."""
    owner, _, name = path.rpartition(".")
    try:
        value = getattr(step.get_submodule(owner), name, None)
    except AttributeError:
        return None
    return value if isinstance(value, torch.Tensor) else None


def _mark_phases(graph: fxcore.Graph) -> None:
    """Put the phases where documents and costs look for modules; the writes into state at the end are an `update`.

    The forward has the paths of the model. The paths of other phases begin with the phase, also those of parameters in
    the optimizer. The state is read where it is needed first, so that equal layers are equal blocks.
    """
    places = _places_in_optimizer(graph)
    for node in graph.nodes:
        if node.op == "call_function":
            phase = node.meta.setdefault(PHASE, "update")
            calls = node.meta.get(_CALLS) or {}
            if phase in ("optimizer", "update"):
                calls = {place: (place, "torch.nn.Parameter")} if (place := places.get(node)) else {}
            if phase != "forward":
                calls = {f"{phase}.{key}": (f"{phase}.{path}", kind) for key, (path, kind) in calls.items()}
            node.meta[_CALLS] = {phase: (phase, "pytest_fxgraph.TrainStep"), **calls}
    order = {node: place for place, node in enumerate(graph.nodes)}
    for node in [node for node in graph.nodes if node.op == "get_attr" and node.users]:
        reader = min(node.users, key=order.__getitem__)
        reader.prepend(node)
        node.meta.update({key: reader.meta[key] for key in (PHASE, _CALLS) if key in reader.meta})


def _places_in_optimizer(graph: fxcore.Graph) -> dict[fxcore.Node, str]:
    """Return the parameter for which each operator of the optimizer computes, and the state that an update writes.

    An operator for several parameters has no place.
    """
    read = {str(node.target): node for node in graph.nodes if node.op == "get_attr"}
    # The optimizer's state has the path of its parameter between the holder's name and its own.
    inner = {path: path.partition(".")[2].rpartition(".")[0] for path in read}
    owners = {node: inner[path] if inner[path] in read else path for path, node in read.items()}
    places: dict[fxcore.Node, str] = {}
    for node in graph.nodes:
        phase = node.meta.get(PHASE)
        if phase == "optimizer":
            known = {owners[each] for each in node.all_input_nodes if each in owners}
            if len(known) == 1:
                owners[node] = places[node] = known.pop()
        elif phase in (None, "update") and node.op == "call_function":
            places[node] = str(node.args[0].target)  # of a `copy_` into a read of the state
    return places
