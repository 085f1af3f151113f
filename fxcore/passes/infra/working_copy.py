"""A graph module that a pass may change while the one that it was given stays as it is."""

from __future__ import annotations

import copy
import re

from torch import nn

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule

__all__ = ["free_name", "rebuilt", "working_copy"]


def working_copy(gm: GraphModule) -> GraphModule:
    """Return a module with a copy of the graph of `gm`; layers, parameters and buffers are shared, not copied.

    Modules that only hold others are the copy's own, so that a layer can be replaced by another.
    """
    return _made(gm, copy.deepcopy(gm.graph))


def rebuilt(gm: GraphModule) -> GraphModule:
    """Return a module of the graph of `gm`, which it takes over, with only what that graph refers to."""
    return _made(gm, gm.graph)


def _made(gm: GraphModule, graph: Graph) -> GraphModule:
    made = GraphModule(gm, graph, type(gm).__name__)
    made.meta = dict(gm.meta)
    return made


def free_name(root: nn.Module, wish: str) -> str:
    """Return `wish` as an identifier, with a number where `root` has an attribute of that name."""
    stem = name = re.sub(r"\W+", "_", wish)
    number = 0
    while hasattr(root, name):
        number += 1
        name = f"{stem}_{number}"
    return name
