"""Shapes and dtypes of a graph's values, from one run on example inputs that changes nothing.

The graph runs on a deep copy of its modules and inputs, without gradients, and the random generators are restored.
Otherwise a golden would change batch norm or dropout. Fake tensors are slower and support fewer operators.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import fxcore
from fxcore.passes.shape_prop import ShapeProp
from fxcore.state.snapshot import globals_kept
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
    values = _values_of_a_run(graph_module, example_inputs, example_kwargs or {})
    for node, meta in zip(graph_module.graph.nodes, values, strict=True):
        node.meta.update(meta)
        if "tensor_meta" in meta:
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
    record_shapes(graph_module, example_inputs, example_kwargs)
    try:
        yield
    finally:
        for node, meta in zip(graph_module.graph.nodes, before, strict=True):
            node.meta.clear()
            node.meta.update(meta)


def _values_of_a_run(
    graph_module: fxcore.GraphModule, example_inputs: object, example_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    refuse_untraceable_parts(graph_module)
    copied, arguments = _detached_copy(graph_module, arguments_in_order(graph_module, example_inputs, example_kwargs))
    for node in copied.graph.nodes:
        for key in _RECORDED:
            node.meta.pop(key, None)
    with globals_kept(settings=False), torch.no_grad():
        try:
            ShapeProp(copied).propagate(*arguments)
        except Exception as error:
            raise CaptureError(_describe_failure(type(graph_module).__name__, copied, error)) from error
    return [{key: node.meta[key] for key in _RECORDED if key in node.meta} for node in copied.graph.nodes]


def _describe_failure(name: str, ran: fxcore.GraphModule, error: Exception) -> str:
    """Return a message with the node that stopped the run (the first node without a recorded type) and the reason."""
    cause = error.__cause__ or error
    message = f"the example inputs do not run through the graph of {name}"
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


def _detached_copy(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Copy a module and its arguments deeply, together, because an input may be one of the module's buffers.

    Tensors are copied first and handed to deepcopy as done, because deepcopy refuses a tensor with a gradient history,
    such as the weight under torch's old weight_norm.
    """
    tensors = [*_tensors_of(module), *_tensors_in(pytree.tree_leaves(arguments))]
    done: dict[int, Any] = {id(tensor): _copy_of(tensor) for tensor in tensors}
    copied: tuple[Any, tuple[Any, ...]] = copy.deepcopy((module, arguments), done)
    return copied


def _tensors_of(module: nn.Module) -> Iterator[torch.Tensor]:
    for each in module.modules():
        for holder in (each._parameters, each._buffers, each.__dict__):
            yield from _tensors_in(holder.values())


def _tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    return (value for value in values if isinstance(value, torch.Tensor))


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    duplicate = tensor.detach().clone()
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(duplicate, requires_grad=tensor.requires_grad)
    return duplicate.requires_grad_(tensor.requires_grad)
