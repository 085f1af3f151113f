"""Graphs inside graphs, wherever they hang: in modules, in delegates, in attributes of leaf modules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from pytest_fxgraph.document.argument_texts import ArgumentTexts
from pytest_fxgraph.document.literals import bytes_text
from pytest_fxgraph.document.modules import Attributes, parts_of, traits_of

# What executorch's LoweredBackendModule has, and whatever is made like it: the graph, and what a backend made of it.
_DELEGATE = ("original_module", "backend_id", "processed_bytes", "compile_specs")
_MOST_BYTES_IN_FULL = 64
_OF_ALL_MODULES = frozenset(vars(torch.nn.Module()))


def is_graph_module(value: Any) -> bool:
    """Tell whether a module is run by a graph of its own, whoever made it.

    Raises AttributeError where a GraphModule's own property `graph` does: the module has one, and it is broken.
    """
    if not isinstance(value, torch.nn.Module):
        return False
    if "graph" not in value.__dict__ and traits_of(type(value)).is_layer:
        return False  # the ordinary case; asking on would be slow
    return hasattr(attribute_of(value, "graph", None), "nodes")


def attribute_of(module: Any, name: str, *default: Any) -> Any:
    """Return an attribute as `getattr` does, with the error of a graph module's property as it is.

    torch.nn.Module says of a property that raises AttributeError that there is no such attribute.
    """
    own = getattr(type(module), name, None)
    if isinstance(own, property) and own.fget is not None and _is_called_graph_module(type(module)):
        return own.fget(module)
    return getattr(module, name, *default)


def _is_called_graph_module(cls: type) -> bool:
    return any(base.__name__ == "GraphModule" for base in cls.__mro__)


def is_delegate(value: Any) -> bool:
    """Tell whether a module is a part of a graph that was handed to a backend."""
    if not isinstance(value, torch.nn.Module) or traits_of(type(value)).is_layer:
        return False
    return all(hasattr(value, name) for name in _DELEGATE)


def delegated_graph(delegate: Any) -> Any:
    """Return the graph module that a backend was given; None where a delegate does not say it."""
    program = delegate.original_module
    module = getattr(program, "graph_module", program)
    return module if is_graph_module(module) else None


def delegate_config(delegate: Any, texts: ArgumentTexts) -> tuple[tuple[str, str], ...]:
    """Describe what a backend made: its identity, the digest of its bytes, and what it was told.

    Raises DocumentError for a compile spec that has no text that is the same in every run.
    """
    specs = [_spec_text(spec, texts) for spec in delegate.compile_specs or ()]
    return (
        ("backend_id", texts.text(delegate.backend_id)),
        ("processed_bytes", _digest(delegate.processed_bytes)),
        ("compile_specs", f"[{', '.join(specs)}]"),
    )


def _spec_text(spec: Any, texts: ArgumentTexts) -> str:
    key, value = getattr(spec, "key", None), getattr(spec, "value", None)
    if not isinstance(key, str):
        return texts.text(spec)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        return f"{key}={texts.text(value)}"
    raw = bytes(value)
    return f"{key}={bytes_text(raw) if len(raw) <= _MOST_BYTES_IN_FULL else _digest(raw)}"


def _digest(raw: Any) -> str:
    return f"sha256={hashlib.sha256(bytes(raw)).hexdigest()}"


def graphs_in(graph: Any, attributes: Attributes) -> Iterator[tuple[str, Any]]:
    """List the graph modules that run as part of a graph, once each, by path; those inside of them are not listed.

    They are called, handed to an operator that calls them, given to a backend, or inside a leaf module.
    """
    seen: set[int] = set()
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            module = attributes.at(node.target)
            if isinstance(module, torch.nn.Module) and not (traits_of(type(module)).is_layer and not module._modules):
                for path, inner in _graphs_at(str(node.target), module):
                    if id(inner) not in seen:
                        seen.add(id(inner))
                        yield path, inner


def _graphs_at(path: str, module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    told: tuple[str, ...] = ()
    for place, part in parts_of(path, module):
        if place.startswith(told):
            continue
        graph = delegated_graph(part) if is_delegate(part) else part if is_graph_module(part) else None
        if graph is not None:
            told += (f"{place}.",)
            yield place, graph
            if place == path:
                return
        else:
            yield from graphs_in_attributes(place, part)


def graphs_in_attributes(path: str, module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """List the graph modules in lists, tuples and dicts of a module, where torch.nn.Module does not see them."""
    if traits_of(type(module)).is_layer:
        return
    for name, value in vars(module).items():
        if name not in _OF_ALL_MODULES and isinstance(value, (list, tuple, dict)):
            for place, item in _items(f"{path}.{name}", value):
                if is_graph_module(item):
                    yield place, item


def _items(path: str, value: Sequence[Any] | Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    keyed = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in keyed:
        if isinstance(key, (str, int)):
            yield f"{path}[{key}]", item
