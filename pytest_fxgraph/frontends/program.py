"""A capture as one graph module, which is what a golden is made of: each graph is a module that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import nn

import fxcore
from pytest_fxgraph.document.capture_notes import NOTES


class CapturedGraphs(nn.Module):
    """Holds the graphs of a capture."""


# Documents may hold the class's name, which must not change when this file is renamed.
CapturedGraphs.__module__ = "pytest_fxgraph"


def joined_graphs(graphs: Mapping[str, Sequence[fxcore.GraphModule]], notes: Iterable[str]) -> fxcore.GraphModule:
    """Return a graph module with the graphs as its modules, `graph_0` and on; it is to be read, not to be run."""
    root = CapturedGraphs()
    outer = fxcore.Graph()
    for kind, of_kind in graphs.items():
        for number, graph in enumerate(of_kind):
            name = f"{kind}_{number}"
            root.add_module(name, graph)
            outer.call_module(name, ())
    outer.output(())
    made = fxcore.GraphModule(root, outer, "CapturedGraphs")
    made.meta[NOTES] = tuple(notes)
    return made
