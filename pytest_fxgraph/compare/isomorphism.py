"""Decide whether two graphs are isomorphic: one graph under other names and in another order of its nodes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from pytest_fxgraph.compare.graph_index import GraphIndex, accesses, storage_histories
from pytest_fxgraph.compare.node_hashes import NodeHashes, input_hashes, user_hashes


def find_isomorphism(expected: GraphIndex, obtained: GraphIndex) -> list[int] | None:
    """Map the position of every expected node to its obtained one's; None where the graphs are not isomorphic.

    Inputs and outputs pair in order, nodes with effects pair in the order of their chain, and from there each
    argument pairs with the argument at its place. None may also mean that nodes without users were too
    alike to tell apart.
    """
    if len(expected.nodes) != len(obtained.nodes):
        return None
    if _is_same_in_place(expected, obtained):
        return list(range(len(expected.nodes)))
    found = _Isomorphism(expected, obtained)
    if not (found.map_chains() and found.map_unread() and found.is_complete()):
        return None
    return found.obtained_of if same_storage_order(expected, obtained, found.obtained_of) else None


def values_agree(expected: str | None, obtained: str | None) -> bool:
    """Compare what is known about two values; a value that only one side knows is no difference."""
    return expected == obtained or expected is None or obtained is None


def same_storage_order(expected: GraphIndex, obtained: GraphIndex, mapping: Sequence[int]) -> bool:
    """Tell whether every storage sees the same reads between the same writes on both sides."""
    histories = storage_histories(expected.effects, mapping.__getitem__)
    return histories == storage_histories(obtained.effects, lambda position: position)


def _is_same_in_place(expected: GraphIndex, obtained: GraphIndex) -> bool:
    """Answer the ordinary case, in which at most names differ, without a walk."""
    return (
        expected.labels == obtained.labels
        and expected.inputs == obtained.inputs
        and expected.effects.kinds == obtained.effects.kinds
        and all(
            values_agree(node.value, other.value) for node, other in zip(expected.nodes, obtained.nodes, strict=True)
        )
        and same_storage_order(expected, obtained, range(len(expected.nodes)))
    )


class _Isomorphism:
    """A mapping of positions, both ways and with -1 for what is not mapped yet, and the ways to extend it."""

    def __init__(self, expected: GraphIndex, obtained: GraphIndex) -> None:
        self.expected, self.obtained = expected, obtained
        self.obtained_of = [-1] * len(expected.nodes)
        self.expected_of = [-1] * len(obtained.nodes)

    def is_complete(self) -> bool:
        return -1 not in self.obtained_of

    def map_chains(self) -> bool:
        """Pair inputs, outputs and chains of effects in order, with everything that they read."""
        chains, obtained_chains = self.expected.effects.chains, self.obtained.effects.chains
        if {key: len(chain) for key, chain in chains.items()} != {k: len(c) for k, c in obtained_chains.items()}:
            return False
        pairs = [pair for key in chains for pair in zip(chains[key], obtained_chains[key], strict=True)]
        return all(self._pair(*pair) is not None for pair in pairs)

    def map_unread(self) -> bool:
        """Pair what no root reads: equal hashes pair in order, and what surrounds them follows."""
        if self.is_complete():
            return True
        table = NodeHashes()
        hashes = _unread_hashes(
            self.expected, [n if obtained >= 0 else -1 for n, obtained in enumerate(self.obtained_of)], table
        )
        obtained_hashes = _unread_hashes(self.obtained, self.expected_of, table)
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for position, origin in enumerate(self.expected_of):
            if origin < 0 and not self.obtained.users[position]:
                waiting[obtained_hashes[position]].append(position)
        for position, node_hash in enumerate(hashes):
            if self.obtained_of[position] >= 0 or self.expected.users[position]:
                continue
            alike = waiting[node_hash]
            while alike and self.expected_of[alike[0]] >= 0:
                alike.popleft()
            if not alike or not self._pair_around(position, alike.popleft(), hashes, obtained_hashes):
                return False
        return True

    def _pair(self, expected: int, obtained: int) -> list[tuple[int, int]] | None:
        """Pair two nodes and all that they read; give the new pairs, or None where they do not fit."""
        obtained_of, expected_of = self.obtained_of, self.expected_of
        inputs, obtained_inputs = self.expected.inputs, self.obtained.inputs
        paired: list[tuple[int, int]] = []
        pending = [(expected, obtained)]
        while pending:
            expected, obtained = pending.pop()
            if obtained_of[expected] == obtained:
                continue
            if obtained_of[expected] >= 0 or expected_of[obtained] >= 0 or not self._is_alike(expected, obtained):
                return None
            obtained_of[expected], expected_of[obtained] = obtained, expected
            paired.append((expected, obtained))
            pending.extend(zip(inputs[expected], obtained_inputs[obtained], strict=True))
        return paired

    def _is_alike(self, expected: int, obtained: int) -> bool:
        # Effects need no look here: chains pair node by node, and storages are compared when all is paired.
        graph, obtained_graph = self.expected, self.obtained
        return graph.labels[expected] == obtained_graph.labels[obtained] and values_agree(
            graph.nodes[expected].value, obtained_graph.nodes[obtained].value
        )

    def _pair_around(self, expected: int, obtained: int, hashes: list[int], obtained_hashes: list[int]) -> bool:
        """Pair two unread nodes, what they read, and its other unread readers: what is shared stays shared."""
        pending = self._pair(expected, obtained)
        if pending is None:
            return False
        while pending:
            expected, obtained = pending.pop()
            readers = _unpaired_readers(self.expected, expected, self.obtained_of, hashes)
            obtained_readers = _unpaired_readers(self.obtained, obtained, self.expected_of, obtained_hashes)
            if [reader[:2] for reader in readers] != [reader[:2] for reader in obtained_readers]:
                return False
            for (_, _, reader), (_, _, obtained_reader) in zip(readers, obtained_readers, strict=True):
                found = self._pair(reader, obtained_reader)
                if found is None:
                    return False
                pending.extend(found)
        return True


def _unread_hashes(index: GraphIndex, known: list[int], table: NodeHashes) -> list[int]:
    """Number nodes by what they are and surrounds them; `known` numbers those that are paired already."""
    touched = accesses(index.effects, lambda _: True)
    marks: list[object] = []
    for position, number in enumerate(known):
        epochs = tuple(sorted((kind, epoch) for kind, _, epoch in touched.get(position, ())))
        marks.append(number if number >= 0 else (index.labels[position], index.effects.kinds[position], epochs))
    below = input_hashes(index, marks, table)
    return user_hashes(index, below, table)


def _unpaired_readers(index: GraphIndex, node: int, paired: list[int], hashes: list[int]) -> list[tuple[int, int, int]]:
    unpaired = ((hashes[reader], place, reader) for reader, place in index.users[node] if paired[reader] < 0)
    return sorted(unpaired)
