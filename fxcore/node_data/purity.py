"""Does a node do more than compute its value? Asked of a node and the module that its paths are looked up in."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from fxcore import torch_fx_registry
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.table import facts_of_function, facts_of_name, facts_of_operator, names_mutation

_EFFECTS = frozenset({"mutates", "global_state", "collective"})


def is_impure(node: Any, module: Any, impure_random: bool = True) -> bool:
    """Tell whether `node` must stay in a graph even if its value has no users.

    Inputs and outputs must; so must calls that mutate, draw random numbers (if `impure_random`) or are registered as
    having side effects, and modules that say `_is_impure`. Unlike torch.fx (pytorch#68301), what mutates counts too
    (`add_`, `operator.iadd`, `append`, `out=`, `inplace=True`), and so does what changes how all that follows computes,
    and what talks to other processes, which would wait for this one for ever.
    """
    op = node.op
    if op in ("placeholder", "output"):
        return True
    if op == "call_module":
        # Without a module to ask, keeping a call that may do anything is the safe answer.
        return module is None or _module_is_impure(module, str(node.target))
    if op == "call_method":
        return _method_mutates(str(node.target)) or _asks_for_mutation(node.kwargs)
    if op == "call_function":
        return function_is_impure(node.target, node.args, impure_random) or _asks_for_mutation(node.kwargs)
    return False


def only_writes_first_argument(node: Any, module: Any) -> bool:
    """Tell whether all that `node` does, besides computing its value, is to write into its first argument.

    False for overloads of torch.ops, which torch.fx keeps too, for random values, and where it is not known.
    """
    if not node.args or "out" in node.kwargs:
        return False
    if node.op == "call_method":
        return "random" not in facts_of_name(str(node.target))
    if node.op == "call_function":
        facts = facts_of_function(node.target)
        if "collective" in facts or _is_collective_operator(node.target):
            return False
        return not function_is_impure(node.target) or (
            ("mutates" in facts or _is_named_as_mutating(node.target))
            and not _is_in(node.target, torch_fx_registry.side_effectful_functions())
            and "random" not in facts
        )
    if node.op == "call_module" and module is not None:
        called = _called_module(module, str(node.target))
        return not getattr(called, "_is_impure", False) and bool(getattr(called, "inplace", False))
    return False


def _module_is_impure(module: Any, path: str) -> bool:
    called = _called_module(module, path)
    return bool(getattr(called, "_is_impure", False)) or bool(getattr(called, "inplace", False))


def _called_module(module: Any, path: str) -> Any:
    try:
        return get_attribute(module, path)
    except AttributeError:
        return None


def _method_mutates(name: str) -> bool:
    return names_mutation(name) or "mutates" in facts_of_name(name)


def _asks_for_mutation(kwargs: dict[str, Any]) -> bool:
    return kwargs.get("out") is not None or kwargs.get("inplace") is True


def function_is_impure(target: Any, args: tuple[Any, ...] = (), impure_random: bool = True) -> bool:
    """Tell whether calling `target` does more than compute a value."""
    effectful = torch_fx_registry.side_effectful_functions()
    if isinstance(target, OpOverloadPacket):
        default = getattr(target, "default", None)
        return target in effectful or (default is not None and function_is_impure(default, args, impure_random))
    if isinstance(target, HigherOrderOperator):
        return _higher_order_is_impure(target, args, effectful)
    if _is_in(target, effectful) or _is_in(target, torch_fx_registry.random_functions()):
        return True
    if isinstance(target, OpOverload):
        # Asked of the tags: torch 2.6 has no `_nondeterministic_seeded`.
        is_random = torch.Tag.nondeterministic_seeded in target.tags
        return bool(target._schema.is_mutable) or (impure_random and is_random) or _is_collective_operator(target)
    schema = getattr(target, "_schema", None)
    if schema is not None and getattr(schema, "is_mutable", False):
        return True
    facts = facts_of_function(target)
    return not _EFFECTS.isdisjoint(facts) or _is_named_as_mutating(target)


def _is_collective_operator(target: Any) -> bool:
    if not isinstance(target, (OpOverload, OpOverloadPacket)):
        return False
    facts = facts_of_operator(target)
    return "collective" in facts or "waits" in facts


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


def _is_named_as_mutating(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ""
    return (module == "torch" or module.startswith("torch.")) and names_mutation(getattr(function, "__name__", ""))
