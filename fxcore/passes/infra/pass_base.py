"""A pass: a change of a graph module, with conditions before and after."""

from __future__ import annotations

import abc
from typing import NamedTuple

from torch import nn

from fxcore.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module that a pass returns, and whether the pass changed anything."""

    graph_module: nn.Module
    modified: bool


class PassBase(abc.ABC):
    """A pass. Subclasses write `call`, and `requires` and `ensures` if they check anything.

    An instance is called like a function, and goes into `PassManager.passes`.
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Check the requirements of the pass, run it, check its result, and return the result."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change `graph_module`, or make a changed copy; return the changed one and whether anything changed."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - checking nothing is a fine default
        """Raise if the pass cannot run on `graph_module`."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise if the pass did not do its work on `graph_module`, the module that it was given."""
