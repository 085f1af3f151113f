"""Forward hooks of called modules that change what goes in or comes out: part of what a graph runs, and not in it."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from pytest_fxgraph.document.model import HOOK_KEYS, PATCHED_FORWARD
from pytest_fxgraph.document.target_names import text_or_class


def hook_config(module: torch.nn.Module, name_of: Callable[[Any], str]) -> tuple[tuple[str, str], ...]:
    """Name the forward hooks of a module that may return something, and a forward that replaces its class's own.

    Hooks that only look on are left out.
    """
    registries = module._forward_pre_hooks, module._forward_hooks
    found = []
    for key, hooks in zip(HOOK_KEYS, registries, strict=True):
        names = [text_or_class(hook, name_of) for hook in hooks.values() if returns_something(hook)]
        if names:
            found.append((key, f"[{', '.join(names)}]"))
    if "forward" in vars(module):
        found.append((PATCHED_FORWARD, text_or_class(module.forward, name_of)))
    return tuple(found)


def returns_something(function: Any) -> bool:
    """Tell whether a function may return anything but None; what cannot be looked into may."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.MethodType):
        function = function.__func__
    elif not isinstance(function, types.FunctionType):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    code = getattr(function, "__code__", None)
    return not isinstance(code, types.CodeType) or _returns_something(code)


def _returns_something(code: types.CodeType) -> bool:
    last: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        # `return a if b else None` jumps to the return with a value on the stack: the instruction is a target.
        if instruction.opname == "RETURN_VALUE" and (last is None or instruction.is_jump_target or not _is_none(last)):
            return True
        if instruction.opname != "NOP":
            last = instruction
    return False


def _is_none(instruction: dis.Instruction) -> bool:
    return instruction.opname in ("LOAD_CONST", "LOAD_COMMON_CONSTANT") and instruction.argval is None
