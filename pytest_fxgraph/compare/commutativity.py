"""Operands of commutative operators in one order, independent of the order in which they were written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.graph_index import (
    GraphIndex,
    NodeHashes,
    access_epochs,
    graph_index_of,
    input_hashes,
    user_hashes,
)
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, with_inner_graphs
from pytest_fxgraph.document.operator_table import facts_of_call


def with_operands_in_order(expected: GraphDocument, obtained: GraphDocument) -> tuple[GraphDocument, GraphDocument]:
    """Return both documents with the operands of commutative operators in one common order."""
    table = NodeHashes()
    return _in_order(expected, table), _in_order(obtained, table)


def is_commutative(node: NodeRecord) -> bool:
    """Return whether the two operands of a node may change places, judging by the node alone."""
    # torch.add(x, y, alpha=2) is not commutative, nor is the + of tuples, lists and strings.
    has_two_operands = len(node.args) == 2 and not node.kwargs and not any(text[:1] in '([{"' for text in node.args)
    return has_two_operands and "commutative" in facts_of_call(node.op, node.target)


def _in_order(document: GraphDocument, table: NodeHashes) -> GraphDocument:
    index = graph_index_of(document)
    swapping = {position for position, node in enumerate(index.nodes) if _may_swap(index, position)}
    places = _places_in_chains(index)
    marks = [
        (label[:2] if position in swapping else label, places[position]) for position, label in enumerate(index.labels)
    ]

    def either_way(position: int, hashes: Sequence[int]) -> Hashable:
        return tuple(sorted(_operands(index, position, table, hashes))) if position in swapping else None

    below = input_hashes(index, marks, table, either_way)
    users = [[(reader, 0 if reader in swapping else place) for reader, place in found] for found in index.users]
    above = user_hashes(users, below, table)
    nodes = list(index.nodes)
    for position in swapping:
        first, second = _operands(index, position, table, below, above)
        if first > second:
            nodes[position] = nodes[position]._replace(args=nodes[position].args[::-1])
    return with_inner_graphs(replace(document, nodes=tuple(nodes)), lambda graph: _in_order(graph, table))


def _may_swap(index: GraphIndex, position: int) -> bool:
    reads_size = any(_is_size(index.nodes[read]) for read in index.inputs[position])
    return is_commutative(index.nodes[position]) and not reads_size


def _operands(index: GraphIndex, position: int, table: NodeHashes, *hashes: Sequence[int]) -> list[tuple[int, ...]]:
    """Describe both operands: a node by its hashes, a literal by the number of its text."""
    inputs = iter(index.inputs[position])
    described = []
    for text in index.labels[position][2]:
        if text == "%":
            read = next(inputs)
            described.append(tuple(known[read] if read < len(known) else -1 for known in hashes))
        else:
            described.append((table.number(("literal", text)), -1))
    return described


def _places_in_chains(index: GraphIndex) -> list[object]:
    """Describe nodes with effects by their place, because two draws of random numbers are two values."""
    places: list[list[object]] = [[] for _ in index.nodes]
    for key, chain in index.effects.chains.items():
        for place, position in enumerate(chain):
            places[position].append((key, place))
    for position, epochs in access_epochs(index.effects).items():
        places[position].append(epochs)
    return [tuple(found) for found in places]


def _is_size(node: NodeRecord) -> bool:
    """Return whether a node gives a size: + joins two sizes and does not add them."""
    if node.op == "call_method":
        return node.target == "size" and len(node.args) == 1 and not node.kwargs
    return node.target in ("getattr", "builtins.getattr") and node.args[1:2] == ('"shape"',)
