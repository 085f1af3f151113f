"""The cost of a subject's graph, for goldens of level `cost`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import nn

import fxcore
from fxcore.errors import InterpreterError
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.transforms.analysis.costs import Cost, GraphCosts, graph_costs, module_path
from fxcore.transforms.analysis.memory import activation_memory
from fxcore.transforms.analysis.values import Propagation, example_arguments
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.captures.train_step import PHASE, steps_of
from pytest_fxgraph.document.capture_notes import graphs_of_capture
from pytest_fxgraph.document.costs import COUNTS, CostBlock, CostRecord
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import CaptureError, InputsError


def with_costs(
    document: GraphDocument, root: nn.Module, graph: Any, inputs: object, kwargs: Mapping[str, Any] | None
) -> GraphDocument:
    """Return a document with the costs of its graph.

    Raises InputsError if no example gives the shapes, CaptureError if the graph does not run on the inputs.
    """
    module: Any = root if getattr(root, "graph", None) is graph else fxcore.GraphModule(root, graph)
    graphs = graphs_of_capture(module)
    if graphs:
        blocks = {name: cost_block(costs_of_captured(each)) for name, each in graphs.items()}
        return replace(document, cost=costs_together(blocks))
    if inputs is None and not kwargs:
        arguments = example_arguments(graph)
        if arguments is None:
            raise InputsError(
                "level cost needs example inputs: what a graph costs follows from the shapes of its values; "
                'write fx_golden(level="cost", example_inputs=(...,))'
            )
    else:
        arguments = arguments_in_order(module, inputs, kwargs or {})
    return replace(document, cost=costs_on(module, arguments))


def costs_of_captured(graph_module: Any) -> GraphCosts:
    """Return the costs of a graph that knows its shapes. Raises CaptureError if it does not, or does not run."""
    arguments = example_arguments(graph_module.graph)
    if arguments is None:
        raise CaptureError(
            f"cannot count what {type(graph_module).__name__} costs: the shapes of its inputs are not known"
        )
    return _costs(graph_module, arguments)


def costs_together(blocks: Mapping[str, CostBlock]) -> CostBlock:
    """Return the costs of several graphs that run one after the other; a module's path begins with its graph."""
    name, highest = max(blocks.items(), key=lambda pair: pair[1].peak_activation)
    totals = [block.total for block in blocks.values()]
    total = CostRecord(*(sum(getattr(each, count) for each in totals) for count in COUNTS))
    place = f"{name}.{highest.peak_at}".rstrip(".")
    modules = ((f"{graph}.{path}", record) for graph, block in blocks.items() for path, record in block.modules)
    uncounted = {operator for block in blocks.values() for operator in block.uncounted}
    named = tuple((path.rstrip("."), record) for path, record in modules)
    return CostBlock(total, highest.peak_activation, place, named, tuple(sorted(uncounted)))


def step_memory(graph_module: Any) -> dict[str, int]:
    """Return the bytes of the state and of the gradients of a step, by column of a table; nothing for another graph.

    The peak of activations contains the gradients, because a step holds them only until the optimizer has read them.
    """
    if steps_of(graph_module) is None:
        return {}
    memory = dict.fromkeys(("memory_parameters", "memory_gradients", "memory_optimizer"), 0)
    for node in graph_module.graph.nodes:
        readers = {reader.meta.get(PHASE) for reader in node.users}
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        held = value.numel() * value.dtype.itemsize
        if node.op == "get_attr":
            is_parameter = isinstance(get_attribute(graph_module, node.target), nn.Parameter)
            is_of_optimizer = readers <= {"optimizer", "update"} and not is_parameter
            memory["memory_optimizer" if is_of_optimizer else "memory_parameters"] += held
        elif node.meta.get(PHASE) == "backward" and "optimizer" in readers:
            memory["memory_gradients"] += held
    return memory


def costs_on(graph_module: Any, arguments: tuple[Any, ...]) -> CostBlock:
    """Return the cost of a graph module on arguments. Raises CaptureError if the module does not run on them."""
    return cost_block(_costs(graph_module, arguments))


def _costs(module: nn.Module, arguments: tuple[Any, ...]) -> GraphCosts:
    """Count on the meta device; on fake tensors if a device is named; on real tensors if shapes depend on values."""
    for propagation in get_args(Propagation)[:-1]:
        with suppress(InterpreterError):
            return graph_costs(module, *arguments, propagation=propagation)
    try:
        return graph_costs(module, *arguments, propagation="real")
    except InterpreterError as error:
        raise CaptureError(f"cannot count what the graph costs: {error}") from error


def cost_block(costs: GraphCosts) -> CostBlock:
    """Return costs as plain data."""
    memory = activation_memory(costs.values)
    peak = memory.peak_node
    place = "" if peak is None else module_path(peak)
    modules = tuple((path, _record(cost)) for path, cost in costs.by_module.items())
    nodes = {each.node.name: _record(each.cost) for each in costs.nodes}
    holders = tuple((held.node.name, held.bytes) for held in memory.holders)
    return CostBlock(_record(costs.total), memory.peak, place, modules, costs.uncounted, nodes, holders)


def _record(cost: Cost) -> CostRecord:
    return CostRecord(cost.flops, cost.bytes_read, cost.bytes_written, cost.params, cost.nodes)
