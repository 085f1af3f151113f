"""The way of each frontend from a model to a capture, or to a graph that can run in place of the model.

The fixture `fx_capture` takes these ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from pytest_fxgraph.arguments import Mode
from pytest_fxgraph.captures.capture import Capture, named_bounds, ranges_of
from pytest_fxgraph.captures.dynamo import DynamoRecording
from pytest_fxgraph.captures.inductor import capture_by_inductor
from pytest_fxgraph.captures.module_paths import module_paths_noted
from pytest_fxgraph.captures.request import CaptureRequest, FurtherCall, copied_call, independent_call, left_as_it_was
from pytest_fxgraph.captures.state_names import (
    is_wrapper,
    named_inputs_of_aot,
    reassembled,
    state_of_flattened,
    tensor_parts,
    with_named_state,
)
from pytest_fxgraph.captures.step_trace import Step, exchanges_parameters, step_graph, traced_step
from pytest_fxgraph.captures.subjects import FunctionModule, to_graph_module
from pytest_fxgraph.captures.torch_internals import compile_with_aot, traced_by_make_fx
from pytest_fxgraph.captures.tracing import trace, trace_for_inputs
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.choices import Frontend
from pytest_fxgraph.errors import CaptureError

_REMEDY = "compare it with frontend='export' or 'make_fx', or look at it with fx_capture"


def captured(request: CaptureRequest) -> Capture:
    """Capture a model by the frontend of a request; leave the model and torch as they were.

    Raises CaptureError, with the user's line, if the frontend or the model fails.
    """
    with left_as_it_was(request):
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
    with request.failures_told():
        program = torch.export.export(model, args, dict(kwargs), dynamic_shapes=request.dynamic_shapes, strict=False)
        table = request.decomposition_table
        if table is not None:
            program = program.run_decompositions(dict(table))
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
    is_train_step = isinstance(request.model, TrainStep)
    if is_train_step and request.dynamic_shapes is True:
        raise CaptureError("the graph of a train step has fixed sizes; leave dynamic_shapes= out")
    step = request.step or (Step() if exchanges_parameters(request.model) else None)
    with request.failures_told():
        if is_train_step:
            made = step_graph(request.model, args, dict(kwargs), request.decomposition_table)
            return Capture("make_fx", request.name, [made])
        if step is not None:
            made = traced_step(request.model, args, dict(kwargs), step, request.decomposition_table)
            return Capture("make_fx", request.name, [made])
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

    given = [*(part for _, part in named_parts), *inputs]
    is_symbolic = request.dynamic_shapes is True
    with request.failures_told(), module_paths_noted(model):
        table = request.decomposition_table
        graph = interop.from_torch(traced_by_make_fx(run, given, is_symbolic=is_symbolic, decompositions=table))
    placeholders = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    ranges = ranges_of(graph.graph)
    names = (name for name, _ in named_parts)
    named = with_named_state(graph, dict(zip(placeholders, names, strict=False)), model)
    return Capture("make_fx", request.name, [named], ranges=ranges)


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

        return compile_with_aot(graph_module, examples, take, table)

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


# Graphs that run in place of their models.


def runnable_graph(request: CaptureRequest) -> fxcore.GraphModule:
    """Capture a model as one graph with the model's arguments.

    Raises CaptureError if the frontend fails, or its graph cannot run in place of the model.
    """
    if request.frontend == "dynamo":
        with left_as_it_was(request):
            return _runnable_by_dynamo(request)
    graph_module = captured(request).graphs[0]
    args, kwargs = request.calls[0]
    wrapper = next(filter(is_wrapper, pytree.tree_leaves((args, dict(kwargs)))), None)
    if request.frontend == "make_fx" and wrapper is not None:
        raise CaptureError(
            f"frontend='make_fx': the graph of {request.name} takes the parts of the {type(wrapper).__name__} among "
            f"the inputs, so it cannot be run in the model's place; compare it with frontend='dynamo', or look "
            "at it with fx_capture"
        )
    if request.frontend == "make_fx" and (kwargs or not all(isinstance(value, torch.Tensor) for value in args)):
        graph_module.graph.set_codegen(_nesting(args, kwargs, None))  # its placeholders are the leaves
        graph_module.recompile()
    return graph_module


def _nesting(args: Sequence[Any], kwargs: Mapping[str, Any], out_spec: pytree.TreeSpec | None) -> PyTreeCodeGen:
    names = [*(f"arg_{place}" for place in range(len(args))), *kwargs]
    return PyTreeCodeGen(PyTreeInfo(names, pytree.tree_flatten((tuple(args), dict(kwargs)))[1], out_spec))


def _runnable_by_dynamo(request: CaptureRequest) -> fxcore.GraphModule:
    """Run Dynamo's one graph once; find its inputs among the arguments, and its outputs in the result, by identity."""
    recording = DynamoRecording(request)
    runs: list[tuple[Sequence[Any], Sequence[Any]]] = []

    def lower(graph_module: Any, _: Sequence[Any], state: Mapping[int, str]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            outputs = graph_module.forward(*values)
            runs.append(([value for place, value in enumerate(values) if place not in state], outputs))
            return outputs

        return run

    (call, outputs) = recording.run(lower)[0]
    capture = recording.capture(recording.graphs)
    if len(capture.graphs) != 1 or len(runs) != 1 or capture.breaks or capture.skipped:
        told = capture.breaks.explanation() or capture.skipped.explanation()
        count = f"is {len(capture.graphs)} graphs with Python between them" if capture.graphs else "has no graph"
        words = f"frontend='dynamo': {request.name} {count}, so that no graph can be run in its place; {_REMEDY}"
        raise CaptureError("\n".join([words, *told]))
    return _rewired(request.name, capture.graphs[0], call, runs[0], outputs)


def _rewired(
    name: str, source: fxcore.GraphModule, call: tuple[Any, Any], run: tuple[Sequence[Any], Sequence[Any]], outputs: Any
) -> fxcore.GraphModule:
    """Return a copy of Dynamo's graph with a placeholder for each leaf of the model's arguments.

    `run` is the inputs and the results of the graph, and `outputs` are the model's results.
    """
    given, made = run
    graph = fxcore.Graph()
    leaves = pytree.tree_leaves((call[0], dict(call[1])))
    inputs = [(leaf, graph.placeholder(f"input_{place}")) for place, leaf in enumerate(leaves)]
    copies: dict[fxcore.Node, fxcore.Node] = {}

    def input_of(value: Any) -> fxcore.Node | None:
        same = (node for leaf, node in inputs if leaf is value and isinstance(value, torch.Tensor))
        return next(same, None)

    placeholders = [node for node in source.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, given, strict=True):
        found = input_of(value)
        if found is None:
            raise CaptureError(
                f"frontend='dynamo': the graph of {name} takes {node.name}, which is neither an input nor state of "
                f"the model, so that it cannot be run in its place; {_REMEDY}"
            )
        copies[node] = found
    results: Any = graph.graph_copy(source.graph, val_map=copies)

    def output_of(leaf: Any) -> Any:
        for place, value in enumerate(made):
            if value is leaf:
                return results[place]
        found = input_of(leaf)
        if found is not None:
            return found
        if leaf is None or isinstance(leaf, (bool, int, float, complex, str, torch.dtype, torch.device)):
            return leaf
        raise CaptureError(
            f"frontend='dynamo': {name} returns an object of type {type(leaf).__name__} that its graph does not "
            f"make, so that the graph cannot be run in its place; {_REMEDY}"
        )

    returned, structure = pytree.tree_flatten(outputs)
    graph.output([output_of(leaf) for leaf in returned])
    graph.set_codegen(_nesting(*call, structure))
    return fxcore.GraphModule(source, graph, name)


class FxCapture:
    """Captures a model by a frontend: the fixture `fx_capture`."""

    def __call__(
        self,
        model: Any,
        inputs: object = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        frontend: Frontend = "dynamo",
        dynamic_shapes: Any = None,
        mode: Mode = "eval",
        decompositions: Any = None,
        calls: Sequence[FurtherCall] = (),
    ) -> Capture:
        """Return the graphs that a frontend makes of a model, with breaks, recompiles and guards.

        `inputs` is a tuple of positional arguments or one tensor. `calls` are further calls, (args, kwargs) each; they
        show recompiles. A function as third part of a call runs before it, and may change attributes and globals.
        `dynamic_shapes` is torch.export's argument; Dynamo also takes True or False, make_fx True. `decompositions` is
        a table, or "core". The model, its gradients and mode, random generators and torch's settings are left as they
        were. Dynamo is reset before and after, and no backend but the recording one runs.

        Raises CaptureError, with the user's line, if the frontend or the model fails, ChoiceError for a wrong word.
        """
        __tracebackhide__ = True
        request = CaptureRequest.of(
            model, inputs, kwargs, frontend, calls, dynamic_shapes, mode=mode, decompositions=decompositions
        )
        return captured(request)
