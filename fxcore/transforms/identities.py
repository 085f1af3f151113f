"""Removal of calls that return their argument: identities, and dropout that drops nothing."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.infra.working_copy import RewritingPass
from fxcore.transforms.fusion.calls import has_hooks

__all__ = ["FUNCTIONAL_DROPOUTS", "RemoveIdentities"]

_WITH_TRAINING = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d)
_WITHOUT_TRAINING = (F.alpha_dropout, F.feature_alpha_dropout)
FUNCTIONAL_DROPOUTS = (*_WITH_TRAINING, *_WITHOUT_TRAINING)

_DROPOUT_MODULES = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
# With the name and position of the argument that switches the dropout on, and its default.
_DROPOUT_FUNCTIONS: dict[Any, tuple[str, int, bool]] = {
    **dict.fromkeys(_WITH_TRAINING, ("training", 2, True)),
    **dict.fromkeys(_WITHOUT_TRAINING, ("training", 2, False)),
    **dict.fromkeys(
        (torch.dropout, torch.alpha_dropout, torch.feature_dropout, torch.ops.aten.dropout.default), ("train", 2, True)
    ),
}


class RemoveIdentities(RewritingPass):
    """Removes `nn.Identity`, empty `nn.Sequential`, and dropout that is not in training or has the rate 0.

    A removed dropout drops nothing after a later `train()` either. Dropout that drops stays;
    `fxcore.experimental.optimization.remove_dropout` removes that.
    """

    def rewrite(self, made: GraphModule) -> bool:
        """Remove these calls; return whether there was any."""
        modified = False
        for node in list(made.graph.nodes):
            if _is_identity(node, made):
                value = node.args[0] if node.args else node.kwargs["input"]
                assert isinstance(value, Node)
                node.replace_all_uses_with(value)
                made.graph.erase_node(node)
                modified = True
        return modified


def _is_identity(node: Node, gm: GraphModule) -> bool:
    value = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(value, Node):
        return False
    if node.op == "call_module":
        module: Any = get_attribute(gm, str(node.target))
        if has_hooks(module):
            return False
        if type(module) in _DROPOUT_MODULES:
            return not module.training or module.p == 0
        return type(module) is nn.Identity or (type(module) is nn.Sequential and not len(module))
    if node.op != "call_function" or node.target not in _DROPOUT_FUNCTIONS:
        return False
    name, position, default = _DROPOUT_FUNCTIONS[node.target]
    rate = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    return rate == 0 or (node.args[position] if len(node.args) > position else node.kwargs.get(name, default)) is False
