"""Folding batch normalisation into the convolution or linear layer before it, for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node

_PATTERNS = (
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
)


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Tell whether `node` calls a module of the second class on what a call of one of the first class gives."""
    if not node.args:
        return False
    return all(
        isinstance(call, Node) and call.op == "call_module" and type(modules.get(str(call.target))) is expected
        for expected, call in zip(pattern, (node.args[0], node), strict=False)
    )


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Install `new_module` where `node` finds the module that it calls, in `modules` and in the parent module there.

    Raises GraphArgumentError (an AssertionError) if `node` calls no module.
    """
    if not isinstance(node.target, str):
        raise GraphArgumentError(f"Expected str target, got {type(node.target)}: {node.name} calls no module")
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Return a graph module in which convolution and linear layers do the batch normalisation that follows them.

    `model` must be in eval mode. It is copied first unless `inplace`, and traced unless it is a graph module and
    `no_trace` is set. A layer whose result or whose weights have other readers stays as it is; one that is called
    several times is fused if the same normalisation follows each call.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for layer_kind, norm_kind in _PATTERNS:
        for calls in _calls_by_layer(graph, layer_kind, modules).values():
            norms = [_following_norm(call, (layer_kind, norm_kind), modules) for call in calls]
            norm_nodes = [norm for norm in norms if norm is not None]
            # Unlike torch.fx, which fuses a shared layer again at every call (pytorch#104593, #197539).
            if len(norm_nodes) < len(norms) or len({norm.target for norm in norm_nodes}) > 1:
                continue
            if _weights_are_read(graph, str(calls[0].target)):
                continue
            layer: Any = modules[str(calls[0].target)]
            fused = _fused(layer, modules[str(norm_nodes[0].target)])
            replace_node_module(calls[0], modules, fused)
            for call, norm in zip(calls, norm_nodes, strict=True):
                norm.replace_all_uses_with(call)
                graph.erase_node(norm)
    return GraphModule(traced, graph)


def _calls_by_layer(graph: Graph, kind: type, modules: dict[str, nn.Module]) -> dict[str, list[Node]]:
    calls: dict[str, list[Node]] = {}
    for node in graph.find_nodes(op="call_module"):
        if type(modules.get(str(node.target))) is kind:
            calls.setdefault(str(node.target), []).append(node)
    return calls


def _following_norm(call: Node, pattern: tuple[type, type], modules: dict[str, nn.Module]) -> Node | None:
    """Return the normalisation that alone reads `call`; None if there is another reader, or it cannot be fused."""
    if len(call.users) != 1:
        return None
    (reader,) = call.users
    if not matches_module_pattern(pattern, reader, modules) or reader.args[0] is not call:
        return None
    norm: Any = modules[str(reader.target)]
    return reader if norm.track_running_stats else None


def _weights_are_read(graph: Graph, path: str) -> bool:
    return any(str(node.target).startswith(f"{path}.") for node in graph.find_nodes(op="get_attr"))


def _fused(layer: Any, norm: Any) -> nn.Module:
    fuse_eval: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
    fused: nn.Module = fuse_eval(layer, norm)
    return fused
