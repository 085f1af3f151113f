"""Copies of graph modules: a pass changes the copy, and the given module stays as it is."""

from __future__ import annotations

import abc
import copy
import re

from torch import nn

from fxcore.errors import PassArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.passes.infra.pass_base import PassBase, PassResult

__all__ = ["RewritingPass", "check_graph_module", "free_name", "rebuilt", "working_copy"]


def check_graph_module(gm: object) -> None:
    """Raise PassArgumentError unless `gm` is a graph module of fxcore."""
    if isinstance(gm, GraphModule):
        return
    kind = type(gm)
    what = f"a {kind.__module__}.{kind.__qualname__}"
    if any(base.__module__.startswith("torch.fx.") for base in kind.__mro__):
        remedy = "give the pass to fxcore.interop.on_torch_graphs, or the graph to fxcore.interop.from_torch"
    else:
        remedy = "trace it first: fxcore.symbolic_trace(model)"
    raise PassArgumentError(f"this pass takes a graph module of fxcore, and was given {what}; {remedy}")


def working_copy(gm: GraphModule) -> GraphModule:
    """Return a module with a copy of the graph of `gm`; layers, parameters and buffers are shared, not copied.

    Modules that only hold other modules are copied, so that a pass can replace a layer. Raises PassArgumentError for
    anything but a graph module of fxcore.
    """
    check_graph_module(gm)
    return _made(gm, copy.deepcopy(gm.graph))


def rebuilt(gm: GraphModule) -> GraphModule:
    """Return a module that takes over the graph of `gm`, with only the attributes that the graph refers to."""
    return _made(gm, gm.graph)


def _made(gm: GraphModule, graph: Graph) -> GraphModule:
    made = GraphModule(gm, graph, type(gm).__name__)
    made.meta = dict(gm.meta)
    return made


def free_name(root: nn.Module, wish: str) -> str:
    """Return `wish` as an identifier, with a number if `root` has an attribute of that name."""
    stem = name = re.sub(r"\W+", "_", wish)
    number = 0
    while hasattr(root, name):
        number += 1
        name = f"{stem}_{number}"
    return name


class RewritingPass(PassBase):
    """A pass that changes a working copy, and leaves the given module as it is. Subclasses write `rewrite`."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a new module, or `graph_module` itself if nothing changed."""
        made = working_copy(graph_module)
        return PassResult(rebuilt(made), True) if self.rewrite(made) else PassResult(graph_module, False)

    @abc.abstractmethod
    def rewrite(self, gm: GraphModule) -> bool:
        """Change `gm`, and return whether anything changed."""
