"""The way of each frontend from a model to a capture, and the one function that takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.capture import Capture, Ranges, named_bounds
from pytest_fxgraph.captures.dynamo import DynamoRecording
from pytest_fxgraph.captures.inductor import capture_by_inductor
from pytest_fxgraph.captures.module_paths import module_paths_noted
from pytest_fxgraph.captures.request import CaptureRequest, copied_call, independent_call, left_as_it_was
from pytest_fxgraph.captures.state_names import (
    named_inputs_of_aot,
    reassembled,
    state_of_flattened,
    tensor_parts,
    with_named_state,
)
from pytest_fxgraph.captures.step_graph import step_graph
from pytest_fxgraph.captures.step_trace import Step, exchanges_parameters, traced_step
from pytest_fxgraph.captures.subjects import FunctionModule, to_graph_module
from pytest_fxgraph.captures.torch_internals import (
    InternalsError,
    Unavailable,
    compile_with_aot,
    shape_facts,
    torch_logs_quiet,
    traced_by_make_fx,
)
from pytest_fxgraph.captures.tracing import trace, trace_for_inputs
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.errors import CaptureError


def captured(request: CaptureRequest) -> Capture:
    """Capture a model by the frontend of a request; leave the model and torch as they were.

    Raises CaptureError, with the user's line, if the frontend or the model fails.
    """
    with torch_logs_quiet(), left_as_it_was(request):
        return _WAYS[request.frontend](request)


def _by_symbolic_trace(request: CaptureRequest) -> Capture:
    """Trace a model by fxcore's tracer. With inputs, the trace uses their values where Python asks for one."""
    args, kwargs = copied_call(request.calls[0])
    graph = trace_for_inputs(request.model, args, kwargs, verify=True) if args or kwargs else trace(request.model)
    return Capture("symbolic", request.name, [graph])


def _by_export(request: CaptureRequest) -> Capture:
    """Export a model, whole or not at all."""
    args, kwargs = independent_call(request.calls[0])
    model = request.model if isinstance(request.model, nn.Module) else FunctionModule(request.model)
    try:
        program = torch.export.export(model, args, dict(kwargs), dynamic_shapes=request.dynamic_shapes, strict=False)
        table = request.decomposition_table
        if table is not None:
            program = program.run_decompositions(dict(table))
    except Exception as error:
        raise request.failure(error) from error
    graph = to_graph_module(program)
    return Capture("export", request.name, [graph], program=program, ranges=named_bounds(program.range_constraints))


def _by_make_fx(request: CaptureRequest) -> Capture:
    """Record the operators of one run of a model, with the model's parameters by name.

    Tensors that wrap others are inputs of the trace by their parts: make_fx records operators on the parts, and would
    take each part for a constant.
    """
    if request.dynamic_shapes not in (None, True):
        raise CaptureError("frontend='make_fx' makes all sizes symbolic or none; give dynamic_shapes=True")
    args, kwargs = independent_call(request.calls[0])
    if isinstance(request.model, TrainStep):
        return _graph_of_step(request, args, dict(kwargs))
    step = request.step or (Step() if exchanges_parameters(request.model) else None)
    if step is not None:
        try:
            stepped = traced_step(request.model, args, dict(kwargs), step, request.decomposition_table)
        except Exception as error:
            raise request.failure(error) from error
        return Capture("make_fx", request.name, [stepped])
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    model = request.model
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())} if isinstance(model, nn.Module) else {}
    whole = [*state.values(), *leaves]
    named_parts = [each for name, value in state.items() for each in tensor_parts(value, name)]
    inputs = [part for value in leaves for _, part in tensor_parts(value)]

    def run(*flat: Any) -> Any:
        parts = iter(flat)
        values = [reassembled(value, parts) for value in whole]
        args, kwargs = pytree.tree_unflatten(values[len(state) :], structure)
        if not isinstance(model, nn.Module):
            return model(*args, **kwargs)
        return torch.func.functional_call(model, dict(zip(state, values, strict=False)), args, kwargs)

    try:
        with module_paths_noted(model):
            made = traced_by_make_fx(
                run,
                [*(part for _, part in named_parts), *inputs],
                is_symbolic=request.dynamic_shapes is True,
                decompositions=request.decomposition_table,
            )
    except Exception as error:
        raise request.failure(error) from error
    graph = interop.from_torch(made)
    placeholders = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    ranges: Ranges | Unavailable
    try:
        ranges = named_bounds(shape_facts(graph.graph)[0])
    except InternalsError as error:
        ranges = Unavailable(str(error))
    names = (name for name, _ in named_parts)
    named = with_named_state(graph, dict(zip(placeholders, names, strict=False)), model)
    return Capture("make_fx", request.name, [named], ranges=ranges)


def _graph_of_step(request: CaptureRequest, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Capture:
    if request.dynamic_shapes is True:
        raise CaptureError("the graph of a train step has fixed sizes; leave dynamic_shapes= out")
    try:
        made = step_graph(request.model, args, kwargs, request.decomposition_table)
    except Exception as error:
        raise request.failure(error) from error
    return Capture("make_fx", request.name, [made])


def _by_dynamo(request: CaptureRequest) -> Capture:
    """Capture the graphs that Dynamo makes in some calls of a model."""
    recording = DynamoRecording(request)
    recording.run(lambda graph_module, *_: graph_module.forward)
    return recording.capture(recording.graphs)


def _by_aot(request: CaptureRequest) -> Capture:
    """Capture Dynamo's graphs after AOT autograd lowered them; in train mode also the backward graphs."""
    recording = DynamoRecording(request)
    made: dict[str, list[fxcore.GraphModule]] = {"joint": [], "forward": [], "backward": []}
    table = request.decomposition_table

    def lower(graph_module: Any, examples: Sequence[Any], state: Mapping[int, str]) -> Callable[..., Any]:
        state = state_of_flattened(examples, state)

        def take(kind: str, graph: Any) -> None:
            taken = interop.from_torch(graph)
            made[kind].append(with_named_state(taken, named_inputs_of_aot(taken, kind, state), request.model))

        return compile_with_aot(graph_module, examples, take=take, decompositions=table)

    is_training = request.mode == "train" or (request.mode is None and getattr(request.model, "training", False))
    with torch.set_grad_enabled(is_training):
        recording.run(lower, is_backward_run=is_training)
    return recording.capture(made["forward"], backward_graphs=made["backward"], joint_graphs=made["joint"])


_WAYS: dict[str, Callable[[CaptureRequest], Capture]] = {
    "symbolic": _by_symbolic_trace,
    "export": _by_export,
    "dynamo": _by_dynamo,
    "aot": _by_aot,
    "make_fx": _by_make_fx,
    "inductor": capture_by_inductor,
}
