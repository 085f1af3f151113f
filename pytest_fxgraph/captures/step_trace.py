"""One step of a model under make_fx, with the model's own state: a forward, or a forward, a loss and its backward.

The trace leaves the state where it is, because the hooks of FSDP and DDP keep references to it. make_fx takes each
tensor of the state for a constant; the graph gets the name of the state whose memory a constant is, or is a view of.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.collective_trace import PROXIES, collectives_noted
from pytest_fxgraph.captures.module_paths import module_paths_noted
from pytest_fxgraph.captures.state_names import placed, reassembled, tensor_parts
from pytest_fxgraph.captures.torch_internals import one_mode_for_values, part_of_torch, traced_by_make_fx
from pytest_fxgraph.captures.train_step import summed


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
    leaves, structure = pytree.tree_flatten((args, kwargs))
    parameters = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}

    def run(*flat: Any) -> Any:
        parts = iter(flat)
        args, kwargs = pytree.tree_unflatten([reassembled(leaf, parts) for leaf in leaves], structure)
        outputs = model(*args, **kwargs)
        if not step.is_training:
            return pytree.tree_map(local_part, outputs)
        loss = summed(outputs) if step.loss is None else step.loss(outputs)
        torch.autograd.backward(loss)
        return local_part(loss), {path: local_part(parameter.grad) for path, parameter in parameters.items()}

    for parameter in parameters.values() if step.is_training else ():
        parameter.grad = None
    return recorded_on_state(model, run, leaves, decompositions, is_training=step.is_training)


def recorded_on_state(
    model: Any,
    run: Callable[..., Any],
    leaves: Iterable[Any],
    decompositions: Mapping[Any, Any] | None,
    *,
    is_training: bool,
) -> fxcore.GraphModule:
    """Record a function that uses a model, whose state stays in place; the graph reads the state by its names.

    `leaves` are the arguments. A tensor that wraps others is handed over by its parts.
    """
    state = _State(model)
    scratch: list[torch.Tensor] = []
    if is_training:
        _register_hooks(model, scratch)
    inputs = [part for value in leaves for _, part in tensor_parts(value)]
    with one_mode_for_values([*inputs, *state.parameters.values()]):
        with _followed_parameters(), collectives_noted(), module_paths_noted(model), _compiled_parts_as_written():
            made = traced_by_make_fx(run, inputs, is_symbolic=False, decompositions=decompositions)
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
        stack = {key: value for key, value in node.meta.items() if key == "nn_module_stack"}
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
