"""Shapes and dtypes of a graph's values, from one run on example inputs that changes nothing.

The graph runs without gradients. Its modules, its inputs and the random generators are restored, because a golden must
not change batch norm or dropout. Fake tensors are slower and support fewer operators.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

import fxcore
from fxcore.passes.shape_prop import ShapeProp
from fxcore.state.snapshot import Snapshot, globals_kept, kept
from pytest_fxgraph.captures.tracing_failure import refuse_untraceable_parts
from pytest_fxgraph.errors import CaptureError, InputsError


def positional_arguments(inputs: object, name: str = "inputs") -> tuple[Any, ...]:
    """Return a tuple as it is, and one tensor as a tuple of one; `name` is the argument's name in messages.

    Raises InputsError (a TypeError) for anything else: a list could be one argument or several.
    """
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    # A named tuple is one value to its model, not a list of arguments.
    if isinstance(inputs, tuple) and not hasattr(inputs, "_fields"):
        return inputs
    raise InputsError(
        f"{name}: expected a tuple of positional arguments or a lone tensor, got {type(inputs).__name__}; "
        f"write {name}=(value,) for a model that takes it as its one argument"
    )


_RECORDED = ("tensor_meta", "type")


def record_shapes(
    graph_module: fxcore.GraphModule, example_inputs: object, example_kwargs: Mapping[str, Any] | None = None
) -> None:
    """Write the shape and dtype of each value into the meta of its node ("tensor_meta", "type").

    Raises CaptureError, naming the node, if the graph does not run on the inputs; InputsError for wrong inputs.
    """
    refuse_untraceable_parts(graph_module)
    arguments = arguments_in_order(graph_module, example_inputs, example_kwargs or {})
    for node in graph_module.graph.nodes:
        for key in _RECORDED:
            node.meta.pop(key, None)
    state, inputs = Snapshot(graph_module), Snapshot.of_values([("inputs", arguments)])
    with globals_kept(settings=False), kept(state), kept(inputs), torch.no_grad():
        try:
            ShapeProp(graph_module).propagate(*arguments)
        except Exception as error:
            raise CaptureError(_describe_failure(graph_module, error)) from error
    for node in graph_module.graph.nodes:
        if "tensor_meta" in node.meta:
            node.meta.pop("val", None)  # the value at capture time, which readers of the meta prefer


@contextlib.contextmanager
def shapes_recorded(
    graph_module: fxcore.GraphModule, example_inputs: object, example_kwargs: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Record shapes for a with block and restore the meta of all nodes at its end. Raises as record_shapes() does."""
    if example_inputs is None and not example_kwargs:
        yield
        return
    before = [dict(node.meta) for node in graph_module.graph.nodes]
    try:
        record_shapes(graph_module, example_inputs, example_kwargs)
        yield
    finally:
        for node, meta in zip(graph_module.graph.nodes, before, strict=True):
            node.meta.clear()
            node.meta.update(meta)


def _describe_failure(ran: fxcore.GraphModule, error: Exception) -> str:
    """Return a message with the node that stopped the run (the first node without a recorded type) and the reason."""
    cause = error.__cause__ or error
    message = f"the example inputs do not run through the graph of {type(ran).__name__}"
    node = next((node for node in ran.graph.nodes if "type" not in node.meta), None)
    if node is not None:
        message += f", at node {node.name!r} ({node.op} {getattr(node.target, '__name__', node.target)})"
    return f"{message}: {type(cause).__name__}: {cause}"


def arguments_in_order(
    graph_module: fxcore.GraphModule, example_inputs: object, by_name: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return example inputs followed by keyword arguments in the order of the graph's placeholders.

    Raises InputsError for inputs of another form, CaptureError for keywords that do not fit the graph.
    """
    positional = () if example_inputs is None else positional_arguments(example_inputs, "example_inputs")
    if not by_name:
        return positional
    left = dict(by_name)
    arguments = list(positional)
    for node in [node for node in graph_module.graph.nodes if node.op == "placeholder"][len(positional) :]:
        if node.target in left:
            arguments.append(left.pop(node.target))
        elif node.args:
            arguments.append(node.args[0])
        elif not node.target.startswith("*"):
            raise CaptureError(f"example_kwargs: the graph's input {node.target!r} has no value")
    if left:
        raise CaptureError(f"example_kwargs: the graph has no input {', '.join(map(repr, left))} beyond example_inputs")
    return tuple(arguments)
