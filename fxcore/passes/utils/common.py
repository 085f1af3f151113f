"""Subgraphs as modules, and whether two graphs are the same."""

from __future__ import annotations

from torch import nn

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.utils.matcher_utils import SubgraphMatcher


class HolderModule(nn.Module):
    """A module that holds others and does nothing."""

    def __init__(self, d: dict[str, nn.Module | None]) -> None:
        """Hold the modules in `d` under its keys."""
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Make a module of `subgraph`, a graph of copied nodes. It shares the attributes of `gm` that the graph refers to.

    Returns the module, and for each path that the graph uses, its path when the module stands at `comp_name`.
    """
    holder = HolderModule({})
    new_paths: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op in ("call_module", "get_attr"):
            path = str(node.target)
            new_paths[path] = f"{comp_name}.{path}"
            _install(holder, path, get_attribute(gm, path))
    return GraphModule(holder, subgraph, class_name), new_paths


def _install(holder: nn.Module, path: str, value: object) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(holder, parent):
            holder.add_module(parent, HolderModule({}))
        holder = getattr(holder, parent)
    setattr(holder, name, value)


__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same nodes, wired the same way, with inputs and outputs in the same order."""
    return len(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)) > 0
