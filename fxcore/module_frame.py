"""Which calls of modules is a node made in? Kept as a chain, and written out when somebody looks."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

# Path and class of a module.
Place = tuple[str, Any]


class ModuleFrame(NamedTuple):
    """A call of a module that runs while tracing, within the call that it was made in."""

    outer: ModuleFrame | None
    key: str  # its path, and from the second call of one module on `@1`, `@2` and so on
    place: Place
    depth: int

    def meta(self) -> dict[str, Any]:
        """Return the metadata of a node made in this call: `nn_module_stack`, outermost call first."""
        calls = []
        frame: ModuleFrame | None = self
        while frame is not None:
            calls.append((frame.key, frame.place))
            frame = frame.outer
        return {"nn_module_stack": OrderedDict(reversed(calls))}


def frame_of(stack: OrderedDict[str, Place]) -> ModuleFrame | None:
    """Return the innermost call of a stack that somebody else filled; None for an empty one."""
    frame = None
    for depth, (key, place) in enumerate(stack.items(), start=1):
        frame = ModuleFrame(frame, key, place, depth)
    return frame
