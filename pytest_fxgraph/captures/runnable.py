"""A captured graph with the model's own arguments and results, so that it can run in place of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import fxcore
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from pytest_fxgraph.captures.dynamo import DynamoRecording
from pytest_fxgraph.captures.request import CaptureRequest, left_as_it_was
from pytest_fxgraph.captures.state_names import is_wrapper
from pytest_fxgraph.captures.torch_internals import torch_logs_quiet
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.errors import CaptureError

_REMEDY = "compare it with frontend='export' or 'make_fx', or look at it with fx_capture"


def runnable_graph(request: CaptureRequest) -> fxcore.GraphModule:
    """Capture a model as one graph with the model's arguments.

    Raises CaptureError if the frontend fails, or its graph cannot run in place of the model.
    """
    if request.frontend == "dynamo":
        with torch_logs_quiet(), left_as_it_was(request):
            return _by_dynamo(request)
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


def _by_dynamo(request: CaptureRequest) -> fxcore.GraphModule:
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
    given, made = runs[0]
    return _Rewired(request.name, capture.graphs[0], call, given).graph_module(outputs, made)


class _Rewired:
    """A copy of Dynamo's graph with a placeholder for each leaf of the model's arguments."""

    def __init__(
        self, name: str, source: fxcore.GraphModule, call: tuple[Sequence[Any], Mapping[str, Any]], given: Sequence[Any]
    ) -> None:
        self._name, self._source, self._call = name, source, call
        self._graph = fxcore.Graph()
        self._leaves = pytree.tree_leaves((tuple(call[0]), dict(call[1])))
        self._inputs = [self._graph.placeholder(f"input_{place}") for place in range(len(self._leaves))]
        self._copies: dict[fxcore.Node, fxcore.Node] = {}
        placeholders = [node for node in source.graph.nodes if node.op == "placeholder"]
        for node, value in zip(placeholders, given, strict=True):
            made = self._input_of(value)
            if made is None:
                raise CaptureError(
                    f"frontend='dynamo': the graph of {name} takes {node.name}, which is neither an input nor state of "
                    f"the model, so that it cannot be run in its place; {_REMEDY}"
                )
            self._copies[node] = made

    def graph_module(self, outputs: Any, made: Sequence[Any]) -> fxcore.GraphModule:
        """Return the copy; `outputs` is the model's result, `made` the graph's."""
        results = self._graph.graph_copy(self._source.graph, val_map=self._copies)
        leaves, structure = pytree.tree_flatten(outputs)
        nodes = [self._output_of(leaf, made, results) for leaf in leaves]
        self._graph.output(nodes)
        self._graph.set_codegen(_nesting(*self._call, structure))
        return fxcore.GraphModule(self._source, self._graph, self._name)

    def _input_of(self, value: Any) -> fxcore.Node | None:
        if not isinstance(value, torch.Tensor):
            return None
        places = [place for place, leaf in enumerate(self._leaves) if leaf is value]
        return self._inputs[places[0]] if places else None

    def _output_of(self, leaf: Any, made: Sequence[Any], results: Any) -> Any:
        for place, value in enumerate(made):
            if value is leaf:
                return results[place]
        found = self._input_of(leaf)
        if found is not None:
            return found
        if leaf is None or isinstance(leaf, (bool, int, float, complex, str, torch.dtype, torch.device)):
            return leaf
        raise CaptureError(
            f"frontend='dynamo': {self._name} returns an object of type {type(leaf).__name__} that its graph does not "
            f"make, so that the graph cannot be run in its place; {_REMEDY}"
        )
