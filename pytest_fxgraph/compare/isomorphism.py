"""Walk two graphs from their roots at once and decide whether they are one graph under other names."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from pytest_fxgraph.compare.graph_index import GraphIndex, accesses, storage_histories
from pytest_fxgraph.compare.node_hashes import DigestTable, input_digests, user_digests
from pytest_fxgraph.document.model import NodeRecord


def match_graphs(expected: GraphIndex, obtained: GraphIndex) -> list[int] | None:
    """Pair every expected node with its obtained one, or give None where the graphs are not the same.

    Inputs and outputs pair in order, nodes with effects pair in the order of their chain, and from there each
    argument pairs with the argument at its place. None may also mean that nodes that nobody reads were too
    alike to tell apart.
    """
    if len(expected.graph.nodes) != len(obtained.graph.nodes):
        return None
    if _is_same_in_place(expected, obtained):
        return list(range(len(expected.graph.nodes)))
    walk = _PairedWalk(expected, obtained)
    if not (walk.pair_chains() and walk.pair_unread() and walk.is_complete()):
        return None
    return walk.partner if same_storage_order(expected, obtained, walk.partner) else None


def values_agree(expected: str | None, obtained: str | None) -> bool:
    """Compare what is known about two values; a value that only one side knows is no difference."""
    return expected == obtained or expected is None or obtained is None


def same_storage_order(expected: GraphIndex, obtained: GraphIndex, partner: Sequence[int]) -> bool:
    """Tell whether every storage sees the same reads between the same writes on both sides."""
    ours = storage_histories(expected.effects, partner.__getitem__)
    return ours == storage_histories(obtained.effects, lambda position: position)


def _is_same_in_place(expected: GraphIndex, obtained: GraphIndex) -> bool:
    """Answer the ordinary case, in which at most names differ, without a walk."""
    return (
        expected.graph.labels == obtained.graph.labels
        and expected.graph.inputs == obtained.graph.inputs
        and expected.effects.kinds == obtained.effects.kinds
        and all(values_agree(ours.value, theirs.value) for ours, theirs in _node_pairs(expected, obtained))
        and same_storage_order(expected, obtained, range(len(expected.graph.nodes)))
    )


def _node_pairs(expected: GraphIndex, obtained: GraphIndex) -> Iterable[tuple[NodeRecord, NodeRecord]]:
    return zip(expected.graph.nodes, obtained.graph.nodes, strict=True)


class _PairedWalk:
    """The pairs found so far, and the ways to find more."""

    def __init__(self, expected: GraphIndex, obtained: GraphIndex) -> None:
        self.expected, self.obtained = expected, obtained
        self.partner = [-1] * len(expected.graph.nodes)
        self._origin = [-1] * len(obtained.graph.nodes)

    def is_complete(self) -> bool:
        return -1 not in self.partner

    def pair_chains(self) -> bool:
        """Pair inputs, outputs and chains of effects in order, with everything that they read."""
        chains, obtained_chains = self.expected.effects.chains, self.obtained.effects.chains
        if {key: len(chain) for key, chain in chains.items()} != {k: len(c) for k, c in obtained_chains.items()}:
            return False
        pairs = [pair for key in chains for pair in zip(chains[key], obtained_chains[key], strict=True)]
        return all(self._pair(*pair) is not None for pair in pairs)

    def pair_unread(self) -> bool:
        """Pair what no root reads: equal digests pair in order, and what surrounds them follows."""
        if self.is_complete():
            return True
        table = DigestTable()
        digests = _unread_digests(
            self.expected, [n if theirs >= 0 else -1 for n, theirs in enumerate(self.partner)], table
        )
        obtained_digests = _unread_digests(self.obtained, self._origin, table)
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for position, origin in enumerate(self._origin):
            if origin < 0 and not self.obtained.graph.users[position]:
                waiting[obtained_digests[position]].append(position)
        for position, digest in enumerate(digests):
            if self.partner[position] >= 0 or self.expected.graph.users[position]:
                continue
            alike = waiting[digest]
            while alike and self._origin[alike[0]] >= 0:
                alike.popleft()
            if not alike or not self._pair_around(position, alike.popleft(), digests, obtained_digests):
                return False
        return True

    def _pair(self, expected: int, obtained: int) -> list[tuple[int, int]] | None:
        """Pair two nodes and all that they read; give the new pairs, or None where they do not fit."""
        partner, origin = self.partner, self._origin
        inputs, obtained_inputs = self.expected.graph.inputs, self.obtained.graph.inputs
        paired: list[tuple[int, int]] = []
        pending = [(expected, obtained)]
        while pending:
            ours, theirs = pending.pop()
            if partner[ours] == theirs:
                continue
            if partner[ours] >= 0 or origin[theirs] >= 0 or not self._is_alike(ours, theirs):
                return None
            partner[ours], origin[theirs] = theirs, ours
            paired.append((ours, theirs))
            pending.extend(zip(inputs[ours], obtained_inputs[theirs], strict=True))
        return paired

    def _is_alike(self, ours: int, theirs: int) -> bool:
        # Effects need no look here: chains pair node by node, and storages are compared when all is paired.
        expected, obtained = self.expected, self.obtained
        return expected.graph.labels[ours] == obtained.graph.labels[theirs] and values_agree(
            expected.graph.nodes[ours].value, obtained.graph.nodes[theirs].value
        )

    def _pair_around(self, expected: int, obtained: int, digests: list[int], obtained_digests: list[int]) -> bool:
        """Pair two unread nodes, what they read, and its other unread readers: what is shared stays shared."""
        pending = self._pair(expected, obtained)
        if pending is None:
            return False
        while pending:
            ours, theirs = pending.pop()
            readers = _unpaired_readers(self.expected, ours, self.partner, digests)
            obtained_readers = _unpaired_readers(self.obtained, theirs, self._origin, obtained_digests)
            if [reader[:2] for reader in readers] != [reader[:2] for reader in obtained_readers]:
                return False
            for (_, _, reader), (_, _, obtained_reader) in zip(readers, obtained_readers, strict=True):
                found = self._pair(reader, obtained_reader)
                if found is None:
                    return False
                pending.extend(found)
        return True


def _unread_digests(side: GraphIndex, known: list[int], table: DigestTable) -> list[int]:
    """Number nodes by what they are and surrounds them; `known` numbers those that are paired already."""
    touched = accesses(side.effects, lambda _: True)
    marks: list[object] = []
    for position, number in enumerate(known):
        epochs = tuple(sorted((kind, epoch) for kind, _, epoch in touched.get(position, ())))
        marks.append(number if number >= 0 else (side.graph.labels[position], side.effects.kinds[position], epochs))
    below = input_digests(side.graph, marks, table)
    return user_digests(side.graph, below, table)


def _unpaired_readers(side: GraphIndex, node: int, paired: list[int], digests: list[int]) -> list[tuple[int, int, int]]:
    unpaired = ((digests[reader], place, reader) for reader, place in side.graph.users[node] if paired[reader] < 0)
    return sorted(unpaired)
