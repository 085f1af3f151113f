"""Which calls of modules is a node made in? Kept as a chain, and written out when somebody looks."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from fxcore.node_source import NodeSource, NodeSourceAction

_new = tuple.__new__

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


def frame_within(outer: ModuleFrame | None, key: str, place: Place) -> ModuleFrame:
    """Return the frame of a call made in another, or in none."""
    depth = 1 if outer is None else outer[3] + 1
    return _new(ModuleFrame, (outer, key, place, depth))  # as the constructor does, in a third of its time


class FrameOfCopy(NamedTuple):
    """What a copy of a node has of the call that the node was made in, and of which node it is a copy."""

    frame: ModuleFrame
    pass_name: str
    name: str
    target: Any
    graph_id: int

    def meta(self) -> dict[str, Any]:
        """Return the metadata of the copy: `nn_module_stack` and `from_node`."""
        source = NodeSource(None, self.pass_name, NodeSourceAction.CREATE)
        source.node_info = NodeSource.NodeInfo(self.name, str(self.target), self.graph_id)
        return {**self.frame.meta(), "from_node": [source]}


# Metadata that is not written out before somebody looks.
PENDING = (ModuleFrame, FrameOfCopy)


def frame_of(stack: OrderedDict[str, Place]) -> ModuleFrame | None:
    """Return the innermost call of a stack that somebody else filled; None for an empty one."""
    frame = None
    for key, place in stack.items():
        frame = frame_within(frame, key, place)
    return frame
