"""One place where a pattern was found, in full."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fxcore.node import Node


@dataclass
class InternalMatch:
    """One place where a pattern was found."""

    # The last nodes of the pattern, from which it was compared upwards.
    anchors: list[Node]
    # From nodes of the pattern to nodes of the graph, or to the constant that stands for an input.
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    # What stands for the pattern's inputs, in their order.
    placeholder_nodes: list[Any] = field(default_factory=list)
    # What stands for the values that the pattern returns.
    returning_nodes: list[Node] = field(default_factory=list)
    # By name, for patterns that name their nodes (SubgraphMatcherWithNameNodeMap).
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            anchors=self.anchors,
            nodes_map=self.nodes_map.copy(),
            placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )
