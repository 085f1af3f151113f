"""Taking nodes out of a graph as a module of their own."""

from __future__ import annotations

from torch import nn

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module that runs copies of `nodes`: it takes the values of `inputs` and returns a list of `outputs`.

    `nodes` are in order; what they refer to is taken from `orig_module`, shared.
    """
    graph = Graph()
    copies: dict[Node, Node] = {value: graph.placeholder(value.name) for value in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[value] for value in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
