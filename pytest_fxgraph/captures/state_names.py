"""State of a captured graph: inputs that are parameters and buffers become attributes with their state-dict names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

import fxcore

_NUMBERED = re.compile(r"primals_(\d+)\Z")


class StateHolder(nn.Module):
    """Holds the parameters and buffers that a captured graph reads, at their paths in the model."""


# Documents may contain the class's name, so the name must not change with this file's.
StateHolder.__module__ = "pytest_fxgraph"


def names_of_state(model: Any) -> dict[int, str]:
    """Map the identity of each parameter and buffer to its first name."""
    found: dict[int, str] = {}
    if isinstance(model, nn.Module):
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            found.setdefault(id(tensor), name)
    return found


def state_of_inputs(values: Sequence[Any], names: Mapping[int, str]) -> dict[int, str]:
    """Map the position of each input that is a parameter or buffer to its name."""
    return {place: names[id(value)] for place, value in enumerate(values) if id(value) in names}


def state_of_flattened(values: Sequence[Any], state: Mapping[int, str]) -> dict[int, str]:
    """Map positions to names after AOT autograd replaced each tensor that wraps others by its parts, in order.

    `state` maps the positions before. The name of a part is that of its tensor and the attribute: `head.weight.scale`.
    """
    parts = [(position, name, part) for position, value in enumerate(values) for name, part in _parts(value)]
    return {
        place: state[position] + name
        for place, (position, name, part) in enumerate(parts)
        if position in state and isinstance(part, torch.Tensor)
    }


def _parts(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of a tensor that wraps others, with the attributes that lead there; any other value itself."""
    if not is_wrapper(value):
        yield name, value
        return
    for attribute in value.__tensor_flatten__()[0]:
        yield from _parts(getattr(value, attribute), f"{name}.{attribute}")


def tensor_parts(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the plain tensors inside a tensor that wraps others, each with its name: `head.weight.scale`.

    For any other value, return the value alone, under `name`.
    """
    is_whole = not is_wrapper(value)
    return [(path, part) for path, part in _parts(value, name) if is_whole or isinstance(part, torch.Tensor)]


def reassembled(value: Any, parts: Iterator[Any]) -> Any:
    """Return a value like `value` from other plain tensors, in the order of `tensor_parts`."""
    if not is_wrapper(value):
        return next(parts)
    names, context = value.__tensor_flatten__()
    own = {name: getattr(value, name) for name in names}
    inner = {name: reassembled(part, parts) if isinstance(part, torch.Tensor) else part for name, part in own.items()}
    return type(value).__tensor_unflatten__(inner, context, value.size(), value.stride())


def is_wrapper(value: Any) -> bool:
    """Return whether a value is a tensor that wraps others: a distributed or a quantized tensor."""
    return isinstance(value, torch.Tensor) and hasattr(value, "__tensor_flatten__")


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


def named_inputs_of_aot(graph_module: fxcore.GraphModule, kind: str, state: Mapping[int, str]) -> dict[str, str]:
    """Map inputs of a lowered graph to the names of their state. AOT autograd numbers the flattened inputs."""
    named = {}
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    for place, name in enumerate(placeholders):
        numbered = _NUMBERED.match(name)
        # Without gradients all inputs stand in their order. A backward graph takes a part of the inputs, by number.
        position = int(numbered[1]) - 1 if numbered else place if kind == "forward" else -1
        if position in state and (numbered or not any(map(_NUMBERED.match, placeholders))):
            named[name] = state[position]
    return named


def _register(root: nn.Module, path: str, model: nn.Module) -> None:
    """Share a parameter, a buffer, or a part of one, at its path."""
    *owners, name = path.split(".")
    source: Any = model
    for owner in owners:
        source = source._modules[owner] if owner in getattr(source, "_modules", ()) else getattr(source, owner)
    persistent = name not in getattr(source, "_non_persistent_buffers_set", ())
    placed(root, path, getattr(source, name), persistent=persistent)


def placed(root: nn.Module, path: str, value: torch.Tensor | None, *, persistent: bool = True) -> None:
    """Register a parameter as a parameter, and any other tensor as a buffer, at its path below a graph's module."""
    *owners, name = path.split(".")
    place = root
    for owner in owners:
        if not isinstance(place._modules.get(owner), nn.Module):
            place.add_module(owner, StateHolder())
        place = place.get_submodule(owner)
    if isinstance(value, nn.Parameter):
        place.register_parameter(name, value)
    else:
        place.register_buffer(name, value, persistent=persistent)
