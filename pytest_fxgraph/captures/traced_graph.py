"""What tracing returns to those who read a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import fxcore
from fxcore.graph import break_cycles


@dataclass(frozen=True)
class TracedGraph:
    """A graph and the module that its paths begin at: enough to read the graph, not to run it."""

    graph: fxcore.Graph
    root: Any  # a GraphModule, or what was traced
    model: Any = None  # what was traced without the lines of its source; None where there is nothing to add

    def free(self) -> None:
        """Free the memory of a graph that was traced only to be read, without waiting for the garbage collector."""
        if self.model is not None:
            break_cycles(self.graph)
