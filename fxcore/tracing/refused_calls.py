"""Explanations of calls that refuse a proxy with a TypeError: the function, the argument, the place, the cure."""

from __future__ import annotations

import dis
import re
from traceback import walk_tb
from types import TracebackType
from typing import Any

import torch

from fxcore.errors import FxError, TraceCallError
from fxcore.tracing.call_site import is_library_file, is_user_file, shown_line
from fxcore.tracing.recorded_functions import TAKE_SIZES_AT_ONCE
from fxcore.tracing.recorder import SymbolicValue

# Torch's argument parser begins with the function's name and the fault.
_OF_TORCH = re.compile(r"(?P<name>\w+)\(\):? (takes |received an invalid |argument ')")
_ARGUMENT = re.compile(r"argument '(?P<name>\w+)'")
_OWNERS = (torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch.linalg, torch.fft, torch.special)

_HOW_TO_KNOW = (
    "pass the value as a tensor, fix the input that it comes from with concrete_args, or make the call in a leaf: a "
    "function with fxcore.wrap() at the top level of its module, or a module with is_leaf_module()"
)


def explained(error: TypeError, module_path: str) -> TraceCallError | None:
    """Return an error that explains `error`, which a call raised while tracing, or None if no proxy caused it.

    `module_path` is the path of the running module.
    """
    traceback = _innermost(error.__traceback__)
    if isinstance(error, FxError) or traceback is None or _is_raised_by_user(traceback):
        return None
    said, _, _ = str(error).partition("\n")
    reason = _reason(said, _has_proxy(traceback.tb_frame.f_locals.values()))
    if reason is None:
        return None
    return TraceCallError(f"{said}{place_text(error, module_path)}\n{reason}")


def _reason(said: str, has_proxy: bool) -> str | None:
    names_proxy = re.search(r"\b(Proxy|Attribute)\b", said) is not None
    called = _OF_TORCH.match(said)
    name = called["name"] if called is not None and _is_of_torch(called["name"]) else ""
    if name in TAKE_SIZES_AT_ONCE and (names_proxy or has_proxy):
        return (
            f"{name}() does not take a proxy as the first of several sizes. Give them as one tuple, {name}((n, 3)), "
            "which is recorded"
        )
    if name and names_proxy:
        argument = _ARGUMENT.search(said)
        which = f"its argument {argument['name']!r}" if argument else "one of its arguments"
        return f"{name}() of torch takes no proxy as {which}: {_HOW_TO_KNOW}"
    if said.startswith("slice indices must be integers") and has_proxy:
        return (
            "A slice of a tensor that is known while tracing cannot have a proxy as its bound. Take "
            f"torch.narrow(tensor, dim, start, length), make the tensor a parameter or an input, or {_HOW_TO_KNOW}"
        )
    if "__cuda_array_interface__" in said and has_proxy:
        return (
            "torch.tensor() and torch.as_tensor() look at the value, so they cannot take a proxy. Take "
            f"torch.full((), value), or {_HOW_TO_KNOW}"
        )
    if names_proxy:
        return f"A plain value is needed here, and that of a proxy is known only when the graph runs: {_HOW_TO_KNOW}"
    return None


def _is_raised_by_user(traceback: TracebackType) -> bool:
    """Return whether the user's own `raise` made an error. The user's message explains enough."""
    code = traceback.tb_frame.f_code
    is_raised = code.co_code[traceback.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return is_raised and not is_library_file(code.co_filename)


def _is_of_torch(name: str) -> bool:
    """Return whether a function in C has this name. A function in Python explains its own arguments."""
    found = [getattr(owner, name, None) for owner in _OWNERS]
    originals = [getattr(each, "replaced_by_trace", each) for each in found if each is not None]
    return name == "new" or any(not hasattr(each, "__code__") for each in originals)


def _has_proxy(values: Any) -> bool:
    return any(
        isinstance(value, SymbolicValue) or (isinstance(value, (list, tuple)) and _has_proxy(value)) for value in values
    )


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def place_of(error: BaseException) -> tuple[str, int, str]:
    """Return file, line and source text of the innermost line of the user's code in an error's traceback."""
    found: tuple[str, int, str] = "", 0, ""
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if is_user_file(file):
            found = file, line, shown_line(file, line, frame.f_globals).partition(": ")[2]
    return found


def place_text(error: BaseException, module_path: str) -> str:
    """Return ` at file:line: source text (in module path)` for the user's innermost line, as far as known."""
    file, line, source = place_of(error)
    place = (f" at {file}:{line}" if file else "") + (f": {source}" if source else "")
    return place + (f" (in module {module_path!r})" if module_path else "")
