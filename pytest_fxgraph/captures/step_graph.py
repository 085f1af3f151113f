"""The graph of a whole training step: it computes new state from old, and ends with the updates of the state.

The step is recorded as torch runs it, with in-place operators. A second trace of this record makes all operators
functional: each state tensor is read once, and written once by a `copy_` at the end.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.collective_trace import PROXIES
from pytest_fxgraph.captures.state_names import placed, reassembled, with_named_state
from pytest_fxgraph.captures.step_trace import recorded_on_state
from pytest_fxgraph.captures.torch_internals import part_of_torch, traced_by_make_fx
from pytest_fxgraph.captures.train_step import PHASE, STEPS, TrainStep
from pytest_fxgraph.errors import CaptureError

_CALLS = "nn_module_stack"
_NO_NAME = re.compile(r"\W+")


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
    _name_inputs(placeholders[len(held) :], step.input_names(args, kwargs))
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
    leaves, structure = pytree.tree_flatten((args, kwargs))

    def run(*flat: Any) -> Any:
        parts = iter(flat)
        args, kwargs = pytree.tree_unflatten([reassembled(leaf, parts) for leaf in leaves], structure)
        return step.run_phases(args, kwargs, phase)

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

    return recorded_on_state(step, run, leaves, decompositions, is_training=True)


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


def _name_inputs(placeholders: list[fxcore.Node], names: list[str]) -> None:
    for node, name in zip(placeholders, names, strict=True):
        node.target = node.name = _NO_NAME.sub("_", name).strip("_")


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
