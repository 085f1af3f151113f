"""Passes of our own: fusion, quantization, decomposition, costs and others. `fxcore.passes` has torch.fx's list."""

from fxcore.lazy_submodules import on_demand

_NAMES = {"Action": "rule", "Calls": "rule", "Rule": "rule", "RuleMatch": "rule", "RuleSet": "rule_set"}

__getattr__ = on_demand(__name__, _NAMES)
