"""The calls of modules around a new node: a chain that becomes `nn_module_stack` when `Node.meta` is read."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

_new = tuple.__new__

# Path and class of a module.
Place = tuple[str, Any]


class ModuleCall(NamedTuple):
    """A call of a module while tracing, with the call around it."""

    outer: ModuleCall | None
    key: str  # the module's path; later calls of one module add `@1`, `@2` and so on
    place: Place
    depth: int

    def meta(self) -> dict[str, Any]:
        """Return the metadata of a node made in this call: `nn_module_stack`, outermost call first."""
        calls = []
        call: ModuleCall | None = self
        while call is not None:
            calls.append((call.key, call.place))
            call = call.outer
        return {"nn_module_stack": OrderedDict(reversed(calls))}


def nested_call(outer: ModuleCall | None, key: str, place: Place) -> ModuleCall:
    """Return a call made inside `outer`, or an outermost call."""
    depth = 1 if outer is None else outer[3] + 1
    return _new(ModuleCall, (outer, key, place, depth))  # a third of the constructor's time


def innermost_call(stack: OrderedDict[str, Place]) -> ModuleCall | None:
    """Return the innermost call of a stack that other code filled; None for an empty stack."""
    call = None
    for key, place in stack.items():
        call = nested_call(call, key, place)
    return call
