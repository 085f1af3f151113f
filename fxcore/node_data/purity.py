"""Purity of a node: whether it does more than compute its value. A question about the node and its graph's module."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from fxcore import torch_fx_registry
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.effects import FIRST, Effects, attribute_effects, effects_of


def effects_of_node(node: Any, module: Any) -> Effects:
    """Return the effects of the call of `node`. Paths are looked up in `module`."""
    if node.target is getattr and len(node.args) > 1:
        return attribute_effects(str(node.args[1]))
    called = called_module(node, module) if node.op == "call_module" else None
    return effects_of(node.op, node.target, called if isinstance(called, torch.nn.Module) else None)


def called_module(node: Any, module: Any) -> Any:
    """Return the module that a `call_module` node calls; None if `module` is None or does not have it."""
    try:
        return None if module is None else get_attribute(module, str(node.target))
    except AttributeError:
        return None


def is_impure(node: Any, module: Any, impure_random: bool = True) -> bool:
    """Return whether `node` must stay in a graph even if its value has no users.

    Inputs and outputs must stay. So must calls that mutate, draw random numbers (if `impure_random`) or are registered
    as having side effects, and modules with a true `_is_impure`. Unlike torch.fx (pytorch#68301), every mutating call
    counts (`add_`, `operator.iadd`, `append`, `out=`, `inplace=True`), every change of global state, and every
    collective: the other processes would wait for this process for ever.
    """
    op = node.op
    if op in ("placeholder", "output"):
        return True
    if op == "call_module":
        # Without a module to ask, the call may do anything, and keeping it is safe.
        called = called_module(node, module)
        return module is None or bool(getattr(called, "_is_impure", False)) or bool(getattr(called, "inplace", False))
    if op not in ("call_method", "call_function"):
        return False
    if node.kwargs.get("out") is not None or node.kwargs.get("inplace") is True:
        return True
    if op == "call_method":
        effects = effects_of(op, node.target)
        return bool(effects.writes) or "global_state" in effects.facts
    return function_is_impure(node.target, node.args, impure_random)


def only_writes_first_argument(node: Any, module: Any) -> bool:
    """Return whether `node` has no effect except to write its first argument.

    False for overloads of torch.ops, which torch.fx keeps too, for random values, and where the effects are unknown.
    """
    if not node.args or "out" in node.kwargs:
        return False
    if node.op == "call_method":
        return "random" not in effects_of(node.op, node.target).kinds
    if node.op == "call_function":
        effects = effects_of(node.op, node.target)
        return not function_is_impure(node.target) or (
            effects.writes == FIRST
            and "random" not in effects.kinds
            and not _is_in(node.target, torch_fx_registry.side_effectful_functions())
        )
    if node.op == "call_module":
        called = called_module(node, module)
        return not getattr(called, "_is_impure", False) and bool(getattr(called, "inplace", False))
    return False


def function_is_impure(target: Any, args: tuple[Any, ...] = (), impure_random: bool = True) -> bool:
    """Return whether a call of `target` does more than compute a value."""
    effectful = torch_fx_registry.side_effectful_functions()
    if isinstance(target, OpOverloadPacket):
        default = getattr(target, "default", None)
        return target in effectful or (default is not None and function_is_impure(default, args, impure_random))
    if isinstance(target, HigherOrderOperator):
        return _higher_order_is_impure(target, args, effectful)
    if _is_in(target, effectful) or _is_in(target, torch_fx_registry.random_functions()):
        return True
    # The tags answer, because torch 2.6 has no `_nondeterministic_seeded`.
    if impure_random and isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags:
        return True
    effects = effects_of("call_function", target)
    always_writes = bool(effects.writes) and effects.writes_condition is None
    return always_writes or "global_state" in effects.facts or "collective" in effects.kinds


def _higher_order_is_impure(target: Any, args: tuple[Any, ...], effectful: set[Any]) -> bool:
    higher_order = torch.ops.higher_order
    if target in (higher_order.auto_functionalized, higher_order.auto_functionalized_v2):
        return bool(args) and _is_in(args[0], effectful)
    return target in effectful


def _is_in(target: Any, functions: Any) -> bool:
    try:
        return target in functions
    except TypeError:  # not hashable, so never registered
        return False
