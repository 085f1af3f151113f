"""Removal of calls that return their argument: identities, and dropout that drops nothing."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.operators.kinds import overload_behind
from fxcore.passes.infra.working_copy import Changes, RewritingPass
from fxcore.transforms.rule import Action, Calls, Rule, RuleMatch
from fxcore.transforms.rule_set import RuleSet

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
        return _RULES.rewrite(made)


_DROPS = "it is a dropout in training; call eval() on the model, trace it, and run this pass then"


def _may_go(match: RuleMatch) -> bool | str | None:
    """Return whether an identity or a dropout can go, or the reason to stay; None for a Sequential with modules."""
    node, module = match.node, match.module
    if module is not None:
        if type(module) is nn.Sequential and len(module):
            return None
        return _DROPS if type(module) in _DROPOUT_MODULES and module.training and module.p else True
    name, position, default = _DROPOUT_FUNCTIONS[overload_behind(node.target)]
    rate = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    is_training = node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
    return True if rate == 0 or is_training is False else _DROPS


def _given(match: RuleMatch) -> Any:
    return match.node.args[0] if match.node.args else match.node.kwargs.get("input")


_IDENTITIES = Calls(*_DROPOUT_FUNCTIONS, *_DROPOUT_MODULES, nn.Identity, nn.Sequential)
_RULES = RuleSet([Rule(_IDENTITIES, Action(_given), when=_may_go, changes_effects=True)])
