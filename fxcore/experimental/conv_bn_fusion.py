"""Folding batch normalisation into the convolution or linear layer before it, for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm

_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)  # the layers that torch.fx fuses


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether `node` calls a module of the second class on the result of a module of the first class."""
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
    """Return a graph module with batch normalisation folded into the convolution and linear layers before it.

    `model` must be in eval mode. It is traced unless it is a graph module and `no_trace` is set; then `inplace` also
    replaces the layers in `model` itself. `fxcore.transforms.fusion` fuses more kinds of layers, and reports them. A
    layer with other readers of its result or its weights stays as it is; one that is called several times is fused if
    the same normalisation follows each call.
    """
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    result = FuseBatchNorm(_LAYERS, functions=False).call(traced)
    fused: Any = result.graph_module
    if inplace and traced is model:
        for each in result.report.changed:
            set_attribute(traced, each.layer, get_attribute(fused, each.layer))
    return GraphModule(fused, fused.graph if result.modified else copy.deepcopy(fused.graph))
