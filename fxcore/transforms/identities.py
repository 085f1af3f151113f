"""Removal of calls that return their argument: identities, and dropout that drops nothing."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.kinds import overload_behind
from fxcore.passes.infra.working_copy import Changes, RewritingPass
from fxcore.transforms.fusion.calls import has_hooks, place_of

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

    def rewrite(self, made: GraphModule) -> Changes:
        """Remove these calls."""
        removed: list[str] = []
        left: dict[str, str] = {}
        for node in list(made.graph.nodes):
            value = node.args[0] if node.args else node.kwargs.get("input")
            reason = _reason_to_stay(node, made)
            if reason:
                left[place_of(node)] = reason
            elif reason is not None and isinstance(value, Node):
                removed.append(place_of(node))
                node.replace_all_uses_with(value)
                made.graph.erase_node(node)
        return removed, left


_DROPS = "it is a dropout in training; call eval() on the model, trace it, and run this pass then"


def _reason_to_stay(node: Node, gm: GraphModule) -> str | None:
    """Return why an identity or a dropout must stay, "" if it can go, or None for any other call."""
    if node.op == "call_module":
        module: Any = get_attribute(gm, str(node.target))
        is_dropout = type(module) in _DROPOUT_MODULES
        is_empty = type(module) is nn.Identity or (type(module) is nn.Sequential and not len(module))
        if not is_dropout and not is_empty:
            return None
        if has_hooks(module):
            return "it has hooks, which would no longer run"
        return _DROPS if is_dropout and module.training and module.p else ""
    function = overload_behind(node.target)
    if node.op != "call_function" or function not in _DROPOUT_FUNCTIONS:
        return None
    name, position, default = _DROPOUT_FUNCTIONS[function]
    rate = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    is_training = node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
    return "" if rate == 0 or is_training is False else _DROPS
