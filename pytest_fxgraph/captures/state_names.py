"""State of a captured graph: inputs that are parameters and buffers become attributes with their state-dict names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

import fxcore


class StateHolder(nn.Module):
    """Holds the parameters and buffers that a captured graph reads, at their paths in the model."""


# Documents may contain the class's name, so the name must not change with this file's.
StateHolder.__module__ = "pytest_fxgraph"


def names_of_state(model: Any) -> dict[int, str]:
    """Map the identity of each parameter and buffer to its first name."""
    found: dict[int, str] = {}
    if isinstance(model, nn.Module):
        for name, tensor in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:
            found.setdefault(id(tensor), name)
    return found


def state_of_inputs(values: Sequence[Any], names: Mapping[int, str]) -> dict[int, str]:
    """Map the position of each input that is a parameter or buffer to its name."""
    return {place: names[id(value)] for place, value in enumerate(values) if id(value) in names}


def with_named_state(graph_module: fxcore.GraphModule, state: Mapping[str, str], model: Any) -> fxcore.GraphModule:
    """Turn placeholders into attributes; `state` maps placeholder names to names in the model's state dict."""
    graph = graph_module.graph
    root = graph_module
    for node in [node for node in graph.nodes if node.op == "placeholder" and node.name in state]:
        path = state[node.name]
        _register(root, path, model)
        with graph.inserting_before(node):
            attribute = graph.get_attr(path)
        attribute.meta.update({key: value for key, value in node.meta.items() if key not in ("grapharg", "desc")})
        node.replace_all_uses_with(attribute)
        graph.erase_node(node)
    if state:
        graph_module.recompile()
    return graph_module


def _register(root: nn.Module, path: str, model: nn.Module) -> None:
    """Share a parameter or buffer of the model, at its path."""
    *owners, name = path.split(".")
    source, place = model, root
    for owner in owners:
        source = source.get_submodule(owner)
        if not isinstance(place._modules.get(owner), nn.Module):
            place.add_module(owner, StateHolder())
        place = place.get_submodule(owner)
    if name in source._parameters:
        place.register_parameter(name, source._parameters[name])
    elif name in source._buffers:
        persistent = name not in source._non_persistent_buffers_set
        buffer: torch.Tensor | None = source._buffers[name]
        place.register_buffer(name, buffer, persistent=persistent)
