"""Matching a pattern that gives names to its nodes."""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree

from fxcore.codegen.pytree_codegen import PyTreeCodeGen
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.matching.match import InternalMatch
from fxcore.matching.matcher import SubgraphMatcher
from fxcore.node import Node

__all__ = ["SubgraphMatcherWithNameNodeMap"]


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Finds a pattern with a last output that is a dict from names to its nodes, and returns their matched nodes.

    For a pattern such as ``return relu, {"conv": conv, "relu": relu}``, every match has in `name_node_map` the nodes
    of the graph under these names. The dict itself is not part of the pattern.
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
        *,
        match_modules: str = "path",
        bind_arguments: bool = False,
    ) -> None:
        """Prepare to look for the pattern in `pattern_gm`, after removing the dict from its output.

        Other arguments are the arguments of `SubgraphMatcher`. Raises GraphArgumentError (an AssertionError) if the
        output does not end in a dict.
        """
        self.name_node_map: dict[str, Node] = _split_to_graph_and_name_node_map(pattern_gm)[1]
        super().__init__(
            pattern_gm.graph,
            match_output,
            match_placeholder,
            remove_overlapping_matches,
            ignore_literals,
            match_modules=match_modules,
            bind_arguments=bind_arguments,
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches of the pattern, each with the matched nodes under the pattern's names."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return matches


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Remove the dict at the end of a graph's output; return the graph module and the dict."""
    output = gm.graph.output_node()
    codegen = gm.graph._codegen
    info = codegen.pytree_info if isinstance(codegen, PyTreeCodeGen) else None
    returned: Any = output.args[0]
    if info is not None and info.out_spec is not None:
        returned = pytree.tree_unflatten(list(returned), info.out_spec)
    if not isinstance(returned, tuple):
        raise GraphArgumentError(f"Expecting the pattern graph to return a tuple, got {type(returned)}; {_HOW}")
    if len(returned) < 2:
        raise GraphArgumentError(f"Expecting the pattern graph to have at least two outputs, got one; {_HOW}")
    *values, names = returned
    if not isinstance(names, dict):
        raise GraphArgumentError(
            f"Expecting the input graph to have a dict output as the last element, got {type(names)}; {_HOW}"
        )
    leaves, spec = pytree.tree_flatten(values)
    output.args = (leaves,)
    if isinstance(codegen, PyTreeCodeGen) and info is not None:
        codegen.pytree_info = info._replace(out_spec=spec)
    gm.recompile()
    return gm, dict(names)


_HOW = 'let the pattern end in `return value, {"name": value}`'
