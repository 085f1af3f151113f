"""Moving nodes that give no tensor across the boundary between two subgraphs, which only tensors may cross."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import torch

from fxcore.node import Node
from fxcore.passes.target_name import CALLABLE_NODE_OPS

_logger = logging.getLogger(__name__)


class Subgraph(Protocol):
    """A run of nodes for one backend."""

    is_acc: bool
    nodes: list[Node]


def move_non_tensor_nodes_on_boundary(subgraphs: Sequence[Subgraph]) -> None:
    """Move nodes that give no tensor from accelerator subgraphs to the one that reads them, and all between.

    Needs what ShapeProp notes: `node.meta["type"]`. A node that several other subgraphs read stays.
    """
    owner = {node: index for index, subgraph in enumerate(subgraphs) for node in subgraph.nodes}
    for index, subgraph in enumerate(subgraphs):
        if subgraph.is_acc:
            _Mover(subgraphs, owner, index).move()


class _Mover:
    """Moves nodes out of one subgraph."""

    def __init__(self, subgraphs: Sequence[Subgraph], owner: dict[Node, int], index: int) -> None:
        self._subgraphs = subgraphs
        self._owner = owner
        self._index = index

    def move(self) -> None:
        nodes = self._subgraphs[self._index].nodes
        waiting = deque([node for node in nodes if not _gives_tensor(node) and self._readers_elsewhere(node)])
        seen: set[Node] = set()
        while waiting:
            node = waiting.popleft()
            if node in seen or self._owner.get(node) != self._index:
                continue
            seen.add(node)
            destinations = self._readers_elsewhere(node)
            if len(destinations) != 1:
                _logger.info("%s stays: nodes of several other subgraphs read it", node.name)
                continue
            moving = self._that_move_with(node, destination := destinations.pop())
            if moving is None:
                continue
            self._move_all(moving, destination)
            waiting.extend(
                value
                for value in node.all_input_nodes
                if self._owner.get(value) == self._index and _is_call(value) and not _gives_tensor(value)
            )

    def _readers(self, node: Node) -> list[Node]:
        return [user for user in node.users if _is_call(user) and user in self._owner]

    def _readers_elsewhere(self, node: Node) -> set[int]:
        return {self._owner[user] for user in self._readers(node)} - {self._index}

    def _that_move_with(self, node: Node, destination: int) -> list[Node] | None:
        """Return what must move to `destination` with `node`; None if a third subgraph is in between."""
        moving: dict[Node, None] = {}
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if current in moving or self._owner[current] == destination:
                continue
            if self._owner[current] != self._index:
                return None
            moving[current] = None
            waiting.extend(self._readers(current))
        return list(moving)

    def _move_all(self, moving: list[Node], destination: int) -> None:
        for node in moving:
            self._subgraphs[self._index].nodes.remove(node)
            self._subgraphs[destination].nodes.append(node)
            self._owner[node] = destination
            _logger.info("moved %s from subgraph %d to %d", node.name, self._index, destination)


def _is_call(node: Node) -> bool:
    return node.op in CALLABLE_NODE_OPS


def _gives_tensor(node: Node) -> bool:
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, torch.Tensor)
