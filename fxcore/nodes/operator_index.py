"""Nodes by opcode and target, for `Graph.find_nodes`."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from fxcore.errors import GraphArgumentError
from fxcore.node import Node

# The label by which nodes compare. One look-up per node saves a call for each comparison.
_PLACE = operator.attrgetter("_sort_key")


class OperatorIndex:
    """Nodes by opcode and target. The first query builds the index; afterwards every edit updates it."""

    __slots__ = ("_by_op", "_by_target")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_op: dict[str, dict[Node, None]] = {}
        self._by_target: dict[tuple[str, Any], dict[Node, None]] = {}
        by_op, by_target = self._by_op, self._by_target
        # The work of insert(), inlined: for a whole graph the calls would cost more than the rest.
        for node in nodes:
            op = node._op
            key = op, node._target
            if key in by_target:
                by_target[key][node] = by_op[op][node] = None
            else:
                self.insert(node)

    def insert(self, node: Node) -> None:
        """Add a node."""
        self._by_op.setdefault(node._op, {})[node] = None
        self._by_target.setdefault((node._op, node._target), {})[node] = None

    def remove(self, node: Node, op: str, target: Any) -> None:
        """Remove a node that was added with opcode `op` and target `target`."""
        self._by_op[op].pop(node, None)
        self._by_target[op, target].pop(node, None)

    def find(self, op: str, target: Any | None, sort: bool) -> list[Node]:
        """Return the nodes with this opcode and, if given, target. `call_function` needs a target."""
        found = self._filed(op, target)
        return sorted(found, key=_PLACE) if sort else list(found)

    def _filed(self, op: str, target: Any | None) -> Iterable[Node]:
        if target is not None:
            return self._by_target.get((op, target), ())
        if op == "call_function":
            raise GraphArgumentError(
                "target must not be None for call_function op: say which function, as in "
                "find_nodes(op='call_function', target=torch.relu)"
            )
        return self._by_op.get(op, ())
