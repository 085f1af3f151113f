"""The calls of modules that a node is made in: kept as a chain, made `nn_module_stack` when `Node.meta` is read."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

_new = tuple.__new__

# Path and class of a module.
Place = tuple[str, Any]


class ModuleCall(NamedTuple):
    """A call of a module that runs while tracing, within the call that it was made in."""

    outer: ModuleCall | None
    key: str  # its path, and from the second call of one module on `@1`, `@2` and so on
    place: Place
    depth: int

    def meta(self) -> dict[str, Any]:
        """Return the metadata of a node made in this call: `nn_module_stack`, outermost call first."""
        calls = []
        frame: ModuleCall | None = self
        while frame is not None:
            calls.append((frame.key, frame.place))
            frame = frame.outer
        return {"nn_module_stack": OrderedDict(reversed(calls))}


def call_within(outer: ModuleCall | None, key: str, place: Place) -> ModuleCall:
    """Return the frame of a call made in another, or in none."""
    depth = 1 if outer is None else outer[3] + 1
    return _new(ModuleCall, (outer, key, place, depth))  # as the constructor does, in a third of its time


def frame_of(stack: OrderedDict[str, Place]) -> ModuleCall | None:
    """Return the innermost call of a stack that was filled elsewhere; None for an empty one."""
    frame = None
    for key, place in stack.items():
        frame = call_within(frame, key, place)
    return frame
