"""Isomorphism of two graphs: one graph under other names and in another order of its nodes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from pytest_fxgraph.compare.graph_index import (
    GraphIndex,
    NodeHashes,
    access_epochs,
    input_hashes,
    storage_histories,
    user_hashes,
)


class Alignment:
    """Pairs of expected and obtained nodes, by position and both ways; -1 for a node without partner."""

    def __init__(self, expected: GraphIndex, obtained: GraphIndex) -> None:
        self.expected, self.obtained = expected, obtained
        self.obtained_of = [-1] * len(expected.nodes)
        self.expected_of = [-1] * len(obtained.nodes)
        self.is_isomorphism = False
        self.inner: dict[str, Alignment] = {}  # of the differing graphs inside, by the path of the module

    def pair(self, expected: int, obtained: int) -> None:
        """Pair two nodes that have no partner yet."""
        self.obtained_of[expected], self.expected_of[obtained] = obtained, expected

    def separate(self, expected: int) -> None:
        """Undo the pair of an expected node."""
        self.expected_of[self.obtained_of[expected]] = -1
        self.obtained_of[expected] = -1

    def pairs(self) -> list[tuple[int, int]]:
        """List the pairs in the order of the expected graph."""
        return [(expected, obtained) for expected, obtained in enumerate(self.obtained_of) if obtained >= 0]

    def removed(self) -> list[int]:
        """List expected nodes without partner."""
        return [expected for expected, obtained in enumerate(self.obtained_of) if obtained < 0]

    def added(self) -> list[int]:
        """List obtained nodes without partner."""
        return [obtained for obtained, expected in enumerate(self.expected_of) if expected < 0]


def find_isomorphism(expected: GraphIndex, obtained: GraphIndex) -> Alignment | None:
    """Pair every expected node with an obtained node; return None if the graphs are not isomorphic.

    Inputs and outputs pair in order, nodes with effects pair in the order of their chain, and from there each
    argument pairs with the argument at its place. Nodes without users may be too alike to tell apart; the result is
    None then, too.
    """
    if len(expected.nodes) != len(obtained.nodes):
        return None
    found = _Isomorphism(expected, obtained)
    if _is_same_in_place(expected, obtained):
        found.obtained_of, found.expected_of = ([*range(len(expected.nodes))] for _ in range(2))
    elif not _is_mapped(found):
        return None
    found.is_isomorphism = True
    return found


def values_agree(expected: str | None, obtained: str | None) -> bool:
    """Compare two values; a value that only one side knows is no difference."""
    return expected == obtained or expected is None or obtained is None


def same_storage_order(expected: GraphIndex, obtained: GraphIndex, mapping: Sequence[int]) -> bool:
    """Return whether every storage sees the same reads between the same writes on both sides."""
    histories = storage_histories(expected.effects, mapping.__getitem__)
    return histories == storage_histories(obtained.effects, lambda position: position)


def _is_same_in_place(expected: GraphIndex, obtained: GraphIndex) -> bool:
    """Answer the ordinary case without a walk: the same nodes in the same order, perhaps under other names."""
    return (
        expected.labels == obtained.labels
        and expected.inputs == obtained.inputs
        and expected.effects.kinds == obtained.effects.kinds
        and all(
            values_agree(node.value, other.value) for node, other in zip(expected.nodes, obtained.nodes, strict=True)
        )
        and same_storage_order(expected, obtained, range(len(expected.nodes)))
    )


def _is_mapped(found: _Isomorphism) -> bool:
    if not (found.map_chains() and found.map_unread() and found.is_complete()):
        return False
    return same_storage_order(found.expected, found.obtained, found.obtained_of)


class _Isomorphism(Alignment):
    """An alignment that grows from certain pairs; every pair is equal up to names."""

    def is_complete(self) -> bool:
        return -1 not in self.obtained_of

    def map_chains(self) -> bool:
        """Pair inputs, outputs and chains of effects in order, with all their inputs."""
        chains, obtained_chains = self.expected.effects.chains, self.obtained.effects.chains
        if {key: len(chain) for key, chain in chains.items()} != {k: len(c) for k, c in obtained_chains.items()}:
            return False
        pairs = [pair for key in chains for pair in zip(chains[key], obtained_chains[key], strict=True)]
        return all(self._pair_with_inputs(*pair) is not None for pair in pairs)

    def map_unread(self) -> bool:
        """Pair nodes that lead to no root: equal hashes pair in order, then the nodes around them."""
        if self.is_complete():
            return True
        table = NodeHashes()
        hashes = surrounding_hashes(
            self.expected, [n if obtained >= 0 else -1 for n, obtained in enumerate(self.obtained_of)], table
        )
        obtained_hashes = surrounding_hashes(self.obtained, self.expected_of, table)
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for position, node_hash in enumerate(obtained_hashes):
            waiting[node_hash].append(position)
        for position, node_hash in enumerate(hashes):
            if self.obtained_of[position] >= 0 or self.expected.users[position]:
                continue
            alike = waiting[node_hash]
            while alike and self.expected_of[alike[0]] >= 0:
                alike.popleft()
            if not alike or not self._pair_around(position, alike.popleft(), hashes, obtained_hashes):
                return False
        return True

    def _pair_with_inputs(self, expected: int, obtained: int) -> list[tuple[int, int]] | None:
        """Pair two nodes and everything that they read; return the new pairs, or None if they do not fit."""
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
        # Effects are not compared here: chains pair node by node, and storages are compared at the end.
        graph, obtained_graph = self.expected, self.obtained
        return graph.labels[expected] == obtained_graph.labels[obtained] and values_agree(
            graph.nodes[expected].value, obtained_graph.nodes[obtained].value
        )

    def _pair_around(self, expected: int, obtained: int, hashes: list[int], obtained_hashes: list[int]) -> bool:
        """Pair two unread nodes, their inputs, and the other unread readers of these: a shared value stays shared."""
        pending = self._pair_with_inputs(expected, obtained)
        if pending is None:
            return False
        while pending:
            expected, obtained = pending.pop()
            readers = unpaired_readers(self.expected, expected, self.obtained_of, hashes)
            obtained_readers = unpaired_readers(self.obtained, obtained, self.expected_of, obtained_hashes)
            if [reader[:2] for reader in readers] != [reader[:2] for reader in obtained_readers]:
                return False
            for (_, _, reader), (_, _, obtained_reader) in zip(readers, obtained_readers, strict=True):
                found = self._pair_with_inputs(reader, obtained_reader)
                if found is None:
                    return False
                pending.extend(found)
        return True


def surrounding_hashes(index: GraphIndex, known: list[int], table: NodeHashes) -> list[int]:
    """Number nodes by their label and surroundings; `known` numbers the nodes that have a partner."""
    epochs = access_epochs(index.effects)
    marks = [
        number if number >= 0 else (index.labels[position], index.effects.kinds[position], epochs.get(position, ()))
        for position, number in enumerate(known)
    ]
    return user_hashes(index.users, input_hashes(index, marks, table), table)


def unpaired_readers(index: GraphIndex, node: int, paired: list[int], hashes: list[int]) -> list[tuple[int, int, int]]:
    """Return the hash, the place and the position of each reader without partner, sorted."""
    unpaired = ((hashes[reader], place, reader) for reader, place in index.users[node] if paired[reader] < 0)
    return sorted(unpaired)
