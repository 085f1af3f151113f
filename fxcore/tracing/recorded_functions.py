"""Functions and methods of torch with an argument parser that refuses a proxy for a number, a size or a type.

Up to some version after 2.6 the parser asks only tensors whether they want to handle the call. There `torch.zeros(3,
dtype=x.dtype)`, `torch.narrow(x, 0, 0, n)` and `tensor.view(n, -1)` cannot be recorded. With that torch, a trace
replaces every function and method that takes arguments other than tensors, according to its schema. The replacement
calls the function and, if the function refuses, records the call. With later versions nothing is replaced.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any, TypeGuard

import torch
from torch import overrides
from torch.utils import _device

from fxcore.graph import Graph
from fxcore.operators.table import FAMILIES
from fxcore.tracing.patching import REPLACEMENTS, Patcher
from fxcore.tracing.recorder import SymbolicValue
from fxcore.tracing.wrap import find_symbolic

# Take sizes one by one, yet every torch refuses a proxy as the first of several: `torch.zeros(n, 3)`.
TAKE_SIZES_AT_ONCE = frozenset(
    {"zeros", "ones", "empty", "rand", "randn", "expand", "new_zeros", "new_ones", "new_empty", "resize_"}
)
# Look at the value itself: every torch refuses a proxy.
_LOOK_AT_VALUES = frozenset({"range"})
# The words of the argument parser about a value of another type, as opposed to calls that are wrong anyway.
_REFUSAL = re.compile(
    r"\b(Proxy|Attribute|ParameterProxy|Example(Value|Sequence|Mapping|Tensor))\b|received an invalid combination"
    r"|, not (tuple|list)$|expected Tensor as element"
)


class _Argument:
    """An object that is no tensor and wants to handle the calls that get it, as a proxy does."""

    @classmethod
    def __torch_function__(cls, *call: Any) -> None: ...


@functools.cache
def are_recorded_by_torch() -> bool:
    """Return whether this torch asks all arguments, and not only tensors, whether they handle the call."""
    try:
        torch.empty(1, dtype=_Argument())  # type: ignore[call-overload]  # that is the question
    except TypeError:
        return False
    return True


def patch_recorded(patcher: Patcher) -> None:
    """Let the trace of `patcher` record calls of these functions with a proxy; for a torch that refuses them."""
    for holder, replacements in _replacements():
        patcher.replace_all(holder, replacements)


@functools.cache
def fill_lists_of_torch() -> None:
    """Let torch list its functions now, because it keeps the functions that it finds at the first use."""
    overrides.get_testing_overrides()
    overrides.is_tensor_method_or_property(torch.add)
    _device._device_constructors()  # the functions that a default device concerns


def restore_targets(graph: Graph) -> None:
    """Put the functions themselves where traced code took a replacement from torch and passed it on."""
    for node in graph.nodes:
        original = getattr(node._target, "replaced_by_trace", None)
        if original is not None:
            node.target = original


@functools.cache
def _replacements() -> list[tuple[Any, dict[str, Callable[..., Any]]]]:
    """Return classes and dicts of globals, each with its functions by name. Traces share the one result.

    The first trace may have an example, and replaces some of these functions in its own way before this search.
    """
    fill_lists_of_torch()
    names = frozenset(_names_with_other_arguments()) - _LOOK_AT_VALUES
    found: list[tuple[Any, dict[str, Callable[..., Any]]]] = []
    of_torch = REPLACEMENTS.originals_of(vars(torch))
    functions = {name: of_torch.get(name) for name in names}
    found.append((vars(torch), {name: _recorded(each) for name, each in functions.items() if _is_function(each)}))
    # Functions in Python call the functions of torch._C._nn.
    for members in (vars(torch.nn.functional), vars(torch._C._nn)):
        originals = REPLACEMENTS.originals_of(members)
        built_in = {name: each for name, each in originals.items() if _is_built_in(each) and name in names}
        found.append((members, {name: _recorded(each) for name, each in built_in.items()}))
    for prefix, module in FAMILIES.items():
        originals = REPLACEMENTS.originals_of(vars(module))
        built_in = {name: each for name, each in originals.items() if prefix + name in names and _is_built_in(each)}
        found.append((vars(module), {name: _recorded(each) for name, each in built_in.items()}))
    of_tensor = [name for name in names if not name.startswith("__") and hasattr(torch.Tensor, name)]
    methods = {name: REPLACEMENTS.original(torch.Tensor, name) for name in of_tensor}
    found.append((torch.Tensor, {name: _recorded(each, 1) for name, each in methods.items() if callable(each)}))
    return found


def _names_with_other_arguments() -> Iterator[str]:
    """Yield the names of torch's operators that take arguments other than tensors."""
    for schema in torch._C._jit_get_all_schemas():
        if (
            not schema.name.startswith("aten::_")
            and schema.name.startswith("aten::")
            and any("Tensor" not in str(each.type) for each in schema.arguments)
        ):
            yield schema.name.removeprefix("aten::")


def _is_built_in(value: object) -> bool:
    return isinstance(value, BuiltinFunctionType)


def _is_function(value: object) -> TypeGuard[Callable[..., Any]]:
    return _is_built_in(value) or getattr(value, "__module__", None) == "torch.functional"


def _recorded(function: Callable[..., Any], first_size: int = 0) -> Callable[..., Any]:
    is_size_refused = function.__name__ in TAKE_SIZES_AT_ONCE

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = find_symbolic((args, kwargs))
            if found is None or _REFUSAL.search(str(error)) is None:
                raise
            if is_size_refused and _begins_with_one(args[first_size:]):
                raise
        kind: Any = type(found)
        return kind.__torch_function__(function, (kind,), args, kwargs)

    call.replaced_by_trace = function  # type: ignore[attr-defined]  # for restore_targets, and proxies that it is given to
    return call


def _begins_with_one(sizes: tuple[Any, ...]) -> bool:
    return len(sizes) > 1 and isinstance(sizes[0], SymbolicValue)
