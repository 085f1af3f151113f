"""Equal questions: nodes that compute the same plain value of the same values."""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable
from typing import Any

from fxcore.graph import Graph
from fxcore.guided.data_reads import OF_SHAPE, OF_TYPE
from fxcore.node import Node
from fxcore.operators.effects import effects_of

# Methods that change the shape, or another attribute, of their tensor in place.
CHANGE_ATTRIBUTES = frozenset(
    {
        *("unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_", "resize_"),
        *("resize_as_", "set_", "requires_grad_", "detach_", "rename_"),
    }
)
_CHANGE_CONTAINERS = frozenset(
    {
        *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault"),
        *("sort", "reverse"),
    }
)
_READS = (operator.getitem, getattr)
_ASK_FOR_STRUCTURE = frozenset({*OF_SHAPE, *OF_TYPE, "getattr", "is_", "is_not", "contains"})


class ValueNumbers:
    """Equal numbers for nodes that compute a plain value in the same way from the same values.

    A value that is read before a write and again behind it has two numbers.
    """

    def __init__(self, graph: Graph, scalars: Collection[Node]) -> None:
        self._numbers: dict[Node, Hashable] = {}
        known: dict[Any, int] = {}
        structure = contents = 0
        for node in graph.nodes:
            if node in scalars or (node.op == "call_function" and node.target in _READS):
                asks_structure = _name_of(node) in _ASK_FOR_STRUCTURE
                reads = any(each not in scalars for each in node.all_input_nodes) or node.op == "get_attr"
                epoch = 0 if not reads else (structure,) if asks_structure else (structure, contents)
                key = (node.op, node.target, self._numbered((node.args, node.kwargs)), epoch)
                if node.op != "placeholder" and "random" not in effects_of(node.op, node.target).kinds:
                    self._numbers[node] = known.setdefault(key, len(known))
            if _changes_structure(node):
                structure += 1
            elif effects_of(node.op, node.target).writes:
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


def _name_of(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _changes_structure(node: Node) -> bool:
    if node.op == "call_method":
        return node.target in CHANGE_ATTRIBUTES or node.target in _CHANGE_CONTAINERS
    return node.target in (setattr, operator.setitem, operator.delitem)
