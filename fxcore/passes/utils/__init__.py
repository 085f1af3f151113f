"""Matching, fusing and lifting of parts of graphs, under torch.fx's names."""

from fxcore.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]
