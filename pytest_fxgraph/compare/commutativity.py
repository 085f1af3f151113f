"""Operands of commutative operators, brought into one order that does not depend on how they were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.graph_index import GraphIndex, accesses, graph_index_of
from pytest_fxgraph.compare.node_hashes import NodeHashes
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.document.operator_table import facts_of_call


def with_operands_in_order(expected: GraphDocument, obtained: GraphDocument) -> tuple[GraphDocument, GraphDocument]:
    """Give both documents with the operands of commutative operators in an order that both agree on."""
    table = NodeHashes()
    return _in_order(expected, table), _in_order(obtained, table)


def is_commutative(node: NodeRecord) -> bool:
    """Tell whether the two operands of a node may change places, as far as the node itself shows."""
    # torch.add(x, y, alpha=2) is not commutative, nor is the + of tuples, lists and strings.
    has_two_operands = len(node.args) == 2 and not node.kwargs and not any(text[:1] in '([{"' for text in node.args)
    return has_two_operands and "commutative" in facts_of_call(node.op, node.target)


def _in_order(document: GraphDocument, table: NodeHashes) -> GraphDocument:
    order = _OperandOrder(graph_index_of(document), table)
    modules = tuple(
        replace(module, graph=module.graph and _in_order(module.graph, table)) for module in document.modules
    )
    return replace(document, nodes=order.nodes(), modules=modules)


class _OperandOrder:
    """Digests of operands that do not see the order of commutative ones."""

    def __init__(self, side: GraphIndex, table: NodeHashes) -> None:
        self._graph = side
        self._table = table
        self._swaps = [self._may_swap(position) for position in range(len(self._graph.nodes))]
        self._below = self._digests_below(_effect_marks(side))
        self._above = self._digests_above()

    def nodes(self) -> tuple[NodeRecord, ...]:
        return tuple(self._ordered(position) for position in range(len(self._graph.nodes)))

    def _may_swap(self, position: int) -> bool:
        reads_size = any(_is_size(self._graph.nodes[read]) for read in self._graph.inputs[position])
        return is_commutative(self._graph.nodes[position]) and not reads_size

    def _ordered(self, position: int) -> NodeRecord:
        node = self._graph.nodes[position]
        if not self._swaps[position]:
            return node
        first, second = self._operands(position, lambda read: (self._below[read], self._above[read]))
        return node if first <= second else replace(node, args=node.args[::-1])

    def _operands(self, position: int, describe: Callable[[int], tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Describe both operands: a node by its digests, a literal by the number of its text."""
        inputs = iter(self._graph.inputs[position])
        return [
            describe(next(inputs)) if text == "%" else (self._table.number(("literal", text)), -1)
            for text in self._graph.labels[position][2]
        ]

    def _digests_below(self, marks: Sequence[object]) -> list[int]:
        digests: list[int] = []
        for position, inputs in enumerate(self._graph.inputs):
            label = self._graph.labels[position]
            if self._swaps[position]:
                operands = self._operands(position, lambda read: (digests[read] if read < len(digests) else -1, -1))
                digests.append(self._table.number(("either way", label[:2], marks[position], *sorted(operands))))
                continue
            read = tuple(digests[other] if other < position else -1 for other in inputs)
            digests.append(self._table.number(("reads", label, marks[position], read)))
        return digests

    def _digests_above(self) -> list[int]:
        digests = [-1] * len(self._graph.nodes)
        for position in range(len(digests) - 1, -1, -1):
            readers = sorted(
                (digests[reader], 0 if self._swaps[reader] else place) for reader, place in self._graph.users[position]
            )
            digests[position] = self._table.number(("read by", self._below[position], tuple(readers)))
        return digests


def _effect_marks(side: GraphIndex) -> list[object]:
    """Tell nodes with effects apart by their place: two draws of random numbers are two values."""
    places: list[list[object]] = [[] for _ in side.nodes]
    for key, chain in side.effects.chains.items():
        for place, position in enumerate(chain):
            places[position].append((key, place))
    for position, touched in accesses(side.effects, lambda _: True).items():
        places[position].append(tuple(sorted((kind, epoch) for kind, _, epoch in touched)))
    return [tuple(found) for found in places]


def _is_size(node: NodeRecord) -> bool:
    """Tell whether a node gives a size, which + joins instead of adding."""
    if node.op == "call_method":
        return node.target == "size" and len(node.args) == 1 and not node.kwargs
    return node.target in ("getattr", "builtins.getattr") and node.args[1:2] == ('"shape"',)
