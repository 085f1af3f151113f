"""Functions that may keep state from one call to the next, where no module shows the state.

A function of the user may write to globals, to enclosed variables, to its defaults and to its own attributes. Only a
second call shows the state. If no function can keep state, a check saves the second call.
"""

from __future__ import annotations

import dis
import enum
import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from fxcore.state.containers import LIBRARIES, is_graph_module, is_plain
from fxcore.state.held_state import modules_by_path
from fxcore.state.outer_values import cells_of
from fxcore.tracing.code_facts import facts_of_code

_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")
_WITHOUT_STATE = (type, types.ModuleType, enum.Enum, torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def may_keep_state(graph: object, call: object) -> bool:
    """Return whether calls of a graph by `call` may depend on earlier calls, beside the state of modules."""
    kind = getattr(call, "kind", None)  # the class of an interpreter: each call makes a new one
    called = _functions_of(kind) if isinstance(kind, type) else [] if isinstance(call, nn.Module) else [call]
    return any(map(_Search().keeps_state, (*called, *_called(graph))))


def _is_bound_to_class(value: Any) -> bool:
    """Return whether a value is a method of a class, written in C and bound to the class."""
    return isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, type)


def _functions_of(kind: type) -> list[Any]:
    kinds = (types.FunctionType, staticmethod, classmethod)
    return [member for name, member in vars(kind).items() if isinstance(member, kinds) and name != "__init__"]


def _called(root: object) -> Iterator[Any]:
    """Yield the functions that graphs below a module call, and the forward of every other module."""
    classes = set()
    for _, module in modules_by_path(root):
        if is_graph_module(module) and not isinstance(module, torch.jit.ScriptModule):
            nodes: Any = getattr(getattr(module, "graph", None), "nodes", ())
            yield from {id(node.target): node.target for node in nodes if node.op == "call_function"}.values()
        elif type(module) not in classes:
            classes.add(type(module))
            yield getattr(type(module), "forward", None)


class _Search:
    """A search through functions and the objects that they refer to; each object is visited once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}

    def keeps_state(self, value: Any) -> bool:
        """Return whether a call of a value may leave state behind."""
        # Since torch 2.14, `apply` of an autograd function is written in C and bound to the user's class.
        is_function = isinstance(value, (types.FunctionType, types.MethodType)) or _is_bound_to_class(value)
        if id(value) in self._seen or isinstance(value, _WITHOUT_STATE) or (is_plain(value) and not is_function):
            return False
        self._seen[id(value)] = value
        if isinstance(value, types.MethodType):
            owner = value.__self__
            of_owner = self._any(_functions_of(owner)) if isinstance(owner, type) else self.keeps_state(owner)
            return of_owner or self.keeps_state(value.__func__)
        if _is_bound_to_class(value):
            return self._any(_functions_of(value.__self__))
        if _is_of_library(value):
            return False
        if isinstance(value, types.FunctionType):
            return self._function_keeps_state(value)
        if isinstance(value, (staticmethod, classmethod)):
            return self.keeps_state(value.__func__)
        if isinstance(value, functools.partial):
            return self._any((value.func, *value.args, *value.keywords.values()))
        return self._any(value) if isinstance(value, (tuple, frozenset)) else type(value) is not object

    def _any(self, values: Iterable[Any]) -> bool:
        return any(self.keeps_state(value) for value in list(values))

    def _function_keeps_state(self, function: types.FunctionType) -> bool:
        if _writes(function.__code__):
            return True
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        names = facts_of_code(function.__code__).names
        used = [function.__globals__[name] for name in names if name in function.__globals__]
        return self._any((*cells_of(function).values(), *defaults, *function.__dict__.values(), *used))


def _is_of_library(value: object) -> bool:
    """Return whether a value belongs to a library, and is no container, tensor or module."""
    if isinstance(value, (list, dict, set, tuple, frozenset, torch.Tensor, nn.Module)):
        return False
    named = value if isinstance(value, types.FunctionType) else type(value)
    package = str(named.__module__).partition(".")[0]
    return package in LIBRARIES and package not in ("builtins", "functools", "collections")


def _writes(code: types.CodeType) -> bool:
    inside = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return any(map(_writes, inside)) or any(
        instruction.opname in _WRITES
        or (instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars)
        for instruction in dis.get_instructions(code)
    )
