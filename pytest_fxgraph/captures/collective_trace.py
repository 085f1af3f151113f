"""Facts of collectives that make_fx does not record: which reduction, and when Python waits for the end.

torch.distributed hands both to objects of C++ that a graph holds as opaque attributes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

from fxcore.node_data.distributed_types import is_reduction
from pytest_fxgraph.captures.torch_internals import part_of_torch

# Key of `node.meta` for the reduction of a collective: "sum", "avg".
REDUCTION = "reduction"

PROXIES = "torch.fx.experimental.proxy_tensor"
# Methods of a process group that call a collective.
_COLLECTIVES = (
    *("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single"),
    *("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced", "allgather", "_allgather_base"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced"),
    *("broadcast", "gather", "scatter", "alltoall", "alltoall_base", "all_to_all_single", "barrier", "send", "recv"),
    "recv_anysource",
)


def wait(work: Any, *tensors: Any) -> None:
    """Wait for the end of a collective; a node of this function stands where the model waited.

    `work` is torch's handle of the collective, and `tensors` are its results, or the tensors of a send or recv. It is
    None where the costs of a graph are counted, because no collective runs there.
    """
    if work is not None:
        torch.distributed.Work.unbox(work).wait()


# Goldens contain the function's name, so the name must not change with this file's.
wait.__module__ = "pytest_fxgraph"


@contextlib.contextmanager
def collectives_noted() -> Iterator[None]:
    """Note each collective's reduction in the metadata of its node, and record each wait as a node, for a trace."""
    # By identity: the handle, which keeps the identity taken, its node, and tensors whose numbers the trace knew.
    works: dict[int, tuple[Any, Any, list[torch.Tensor]]] = {}
    current = part_of_torch(PROXIES, "get_proxy_mode", "the trace of a step")
    quiet = part_of_torch("torch.utils._python_dispatch", "_disable_current_modes", "the trace of a step")
    slot = part_of_torch(PROXIES, "get_proxy_slot", "the trace of a step")

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            mode = current()
            if mode is None:
                return original(*args, **kwargs)
            last = next(iter(reversed(mode.tracer.graph.nodes)), None)
            is_real = torch.distributed.get_backend() != "fake"
            forgotten = _forgotten_numbers((args, kwargs), mode.tracer, slot) if is_real else []
            result = original(*args, **kwargs)
            reduction = _reduction((*args, *kwargs.values()))
            for node in reversed(mode.tracer.graph.nodes):
                if node is last:
                    break
                if str(node.target).startswith("c10d."):
                    objects = [each for each in node.all_input_nodes if is_opaque(mode.tracer.root, each, "ReduceOp")]
                    for each in (node, *objects) if reduction is not None else ():
                        each.meta[REDUCTION] = reduction
                    works[id(result)] = result, node, forgotten
            return result

        return call

    def waited(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(work: Any, *args: Any, **kwargs: Any) -> Any:
            mode, known = current(), works.get(id(work))
            if mode is not None and known is not None and known[0] is work:
                _record_wait(mode.tracer.graph, known[1])
            with quiet():  # gloo moves tensors at the end of a collective; no graph shows this
                ended = original(work, *args, **kwargs)
                for tensor in known[2] if mode is not None and known is not None else ():
                    slot(tensor, mode.tracer).constant = tensor.detach().clone()
            return ended

        return call

    distributed: Any = torch.distributed
    group, work = getattr(distributed, "ProcessGroup", None), getattr(distributed, "Work", None)
    works_of_torch = [] if work is None else [work, *work.__subclasses__()]
    with contextlib.ExitStack() as stack:
        for name in _COLLECTIVES:
            _replace(stack, group, name, noted)
        for kind in works_of_torch if hasattr(work, "unbox") else ():
            _replace(stack, kind, "wait", waited)
        yield


def _replace(stack: contextlib.ExitStack, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    if name in vars(owner or object):
        stack.enter_context(patch.object(owner, name, wrapped(getattr(owner, name))))


def _forgotten_numbers(arguments: Any, tracer: Any, slot: Callable[..., Any]) -> list[torch.Tensor]:
    """Make a trace forget the known numbers of tensors that ranks exchange; return these tensors.

    make_fx would exchange such numbers a second time, and would read them before the end of that collective.
    """
    found = []
    for tensor in [each for each in pytree.tree_leaves(arguments) if isinstance(each, torch.Tensor)]:
        record = slot(tensor, tracer, None)
        if getattr(record, "constant", None) is not None:
            record.constant = None
            found.append(tensor)
    return found


def _reduction(arguments: Iterable[Any]) -> str | None:
    for argument in arguments:
        operation = getattr(argument, "reduceOp", argument)
        operation = getattr(operation, "op", operation)
        if is_reduction(operation):
            return str(operation.name).lower()
    return None


def is_opaque(owner: Any, node: Any, kind: str) -> bool:
    """Return whether a node reads an object of C++ of a kind from the module that owns its graph: "ReduceOp"."""
    value = getattr(owner, str(node.target), None) if node.op == "get_attr" else None
    return isinstance(value, torch.ScriptObject) and str(value._type()).endswith(f".{kind}")


def _record_wait(graph: Any, collective: Any) -> None:
    """Append a call of `wait` with the handle, which is the last result of a collective, and the other results."""
    results = {node.args[1]: node for node in collective.users if node.name.startswith("getitem")}
    if not results:  # the handle is the only result
        tensors = collective.args[0] if isinstance(collective.args[0], (list, tuple)) else ()
        made = graph.call_function(wait, (collective, *tensors))
    else:
        handle = results.pop(max(results))
        made = graph.call_function(wait, (handle, *results.values()))
    made.meta.update({key: value for key, value in collective.meta.items() if key == "nn_module_stack"})
