"""Removal of nodes without users and without effects."""

from __future__ import annotations

from fxcore.graph_module import GraphModule
from fxcore.passes.infra.pass_base import PassBase, PassResult


class DeadCodeElimination(PassBase):
    """Removes nodes without users and without effects, as `Graph.eliminate_dead_code` does."""

    def requires(self, graph_module: GraphModule) -> None:
        """Raise GraphError if the graph is not well-formed."""
        graph_module.graph.lint()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Remove these nodes from `graph_module` itself."""
        modified = graph_module.graph.eliminate_dead_code()
        if modified:
            graph_module.recompile()
        return PassResult(graph_module, modified)
