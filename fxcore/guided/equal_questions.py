"""Equal questions: nodes that compute the same plain value of the same values."""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable
from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.operators.effects import effects_of
from fxcore.operators.table import Facts

_READS = (operator.getitem, getattr)


class ValueNumbers:
    """Equal numbers for nodes that compute a plain value in the same way from the same values.

    A value that is read before a write and again behind it has two numbers.
    """

    def __init__(self, graph: Graph, scalars: Collection[Node]) -> None:
        self._numbers: dict[Node, Hashable] = {}
        known: dict[Any, int] = {}
        structure = contents = 0
        for node in graph.nodes:
            effects = effects_of(node.op, node.target)
            if node in scalars or (node.op == "call_function" and node.target in _READS):
                asks_structure = effects.asks or "takes_part" in effects.facts
                reads = any(each not in scalars for each in node.all_input_nodes) or node.op == "get_attr"
                epoch = 0 if not reads else (structure,) if asks_structure else (structure, contents)
                key = (node.op, node.target, self._numbered((node.args, node.kwargs)), epoch)
                if node.op != "placeholder" and "random" not in effects.kinds:
                    self._numbers[node] = known.setdefault(key, len(known))
            if _changes_structure(node, effects.facts):
                structure += 1
            elif effects.writes:
                contents += 1

    def number_of(self, node: Node) -> Hashable:
        """Return the number of a node; the node itself if it computes something else than a plain value."""
        return self._numbers.get(node, node)

    def _numbered(self, argument: Any) -> Hashable:
        if isinstance(argument, Node):
            return self.number_of(argument)
        if isinstance(argument, dict):
            return tuple([(name, self._numbered(item)) for name, item in argument.items()])
        if isinstance(argument, (tuple, list)):
            return (type(argument), *[self._numbered(item) for item in argument])
        if isinstance(argument, slice):
            return self._numbered((slice, argument.start, argument.stop, argument.step))
        return (type(argument), repr(argument))


def _changes_structure(node: Node, facts: Facts) -> bool:
    mutates = node.op == "call_method" and "mutates" in facts
    return mutates or "changes_attributes" in facts or "changes_items" in facts
