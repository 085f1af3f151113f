"""A match of a pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fxcore.node import Node


@dataclass
class InternalMatch:
    """One place where a pattern was found."""

    # The last nodes of the pattern, where the comparison started.
    anchors: list[Node]
    # Node of the pattern -> node of the graph; for an input of the pattern also a constant.
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    # The values of the pattern's inputs, in their order.
    placeholder_nodes: list[Any] = field(default_factory=list)
    # The nodes that match the values returned by the pattern.
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
