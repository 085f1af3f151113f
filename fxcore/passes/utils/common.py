"""Subgraphs as modules, and whether two graphs are the same."""

from __future__ import annotations

from fxcore.graph import Graph
from fxcore.passes.subgraph_module import HolderModule, lift_subgraph_as_module
from fxcore.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Tell whether two graphs have the same nodes, wired the same way, with inputs and outputs in the same order."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
