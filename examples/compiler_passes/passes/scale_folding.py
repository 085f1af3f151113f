"""linear(x) * 2 is a linear layer whose weight and bias are twice as large."""

from __future__ import annotations

import copy
import operator

import torch
from torch import nn

import fxcore


def fold_scale_into_linear(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Scale the weights of linear layers instead of their results; the model's own weights are left alone."""
    modules = dict(gm.named_modules())
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or node.target not in (operator.mul, torch.mul) or len(node.args) != 2:
            continue
        linear, scale = node.args
        if not isinstance(linear, fxcore.Node) or linear.op != "call_module" or len(linear.users) > 1:
            continue
        layer = modules[linear.target]
        is_called_once = sum(each.target == linear.target for each in gm.graph.nodes) == 1
        if type(layer) is nn.Linear and isinstance(scale, (int, float)) and is_called_once:
            gm.set_submodule(linear.target, _scaled(layer, scale))
            node.replace_all_uses_with(linear)
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _scaled(layer: nn.Linear, scale: float) -> nn.Linear:
    scaled = copy.deepcopy(layer)
    with torch.no_grad():
        scaled.weight.mul_(scale)
        if scaled.bias is not None:
            scaled.bias.mul_(scale)
    return scaled
