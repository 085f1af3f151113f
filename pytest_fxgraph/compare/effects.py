"""What keeps nodes in order: chains of effects, and reads and writes of shared storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_fxgraph.document.graph_document import NodeRecord

# Which access to which storage, and how many writes to that storage came before.
Access = tuple[str, str, int]


@dataclass(frozen=True)
class Effects:
    """Effects of the nodes of one graph, by index."""

    chains: Mapping[str, tuple[int, ...]]  # nodes that must keep their order among themselves, by what binds them
    kinds: tuple[tuple[str, ...], ...]  # effects of each node without the names of storages, sorted
    storages: tuple[tuple[tuple[str, str], ...], ...]  # accesses of each node: ("read" or "write", name of storage)


def effects_of(nodes: Sequence[NodeRecord], shared_path: Mapping[str, str]) -> Effects:
    """Collect the effects of nodes; `shared_path` names modules that are one object by one path."""
    chains: dict[str, list[int]] = {}
    kinds: list[tuple[str, ...]] = []
    storages: list[tuple[tuple[str, str], ...]] = []
    for position, node in enumerate(nodes):
        if node.op in ("placeholder", "output"):
            chains.setdefault(node.op, []).append(position)
        if not node.effects:
            kinds.append(())
            storages.append(())
            continue
        accessed = [(kind, storage) for kind, _, storage in (text.partition(" ") for text in node.effects) if storage]
        plain = [text for text in node.effects if " " not in text]
        for kind in plain:
            chains.setdefault(_chain_key(kind, node, shared_path), []).append(position)
        kinds.append(tuple(sorted(plain + [kind for kind, _ in accessed])))
        storages.append(tuple(accessed))
    return Effects({key: tuple(chain) for key, chain in chains.items()}, tuple(kinds), tuple(storages))


def accesses(effects: Effects, is_counted: Callable[[int], bool]) -> dict[int, tuple[Access, ...]]:
    """Give each node that touches a storage its accesses, counting the writes before it by counted nodes."""
    written: Counter[str] = Counter()
    found: dict[int, tuple[Access, ...]] = {}
    for position, touched in enumerate(effects.storages):
        if not touched:
            continue
        found[position] = tuple((kind, storage, written[storage]) for kind, storage in touched)
        if is_counted(position):
            written.update({storage for kind, storage in touched if kind == "write"})
    return found


def storage_histories(effects: Effects, rename: Callable[[int], int]) -> Counter[frozenset[tuple[int, str, int]]]:
    """Describe each storage by who touches it, how, and after how many writes, so that its name does not matter."""
    histories: dict[str, set[tuple[int, str, int]]] = {}
    for position, touched in accesses(effects, lambda _: True).items():
        for kind, storage, epoch in touched:
            histories.setdefault(storage, set()).add((rename(position), kind, epoch))
    return Counter(frozenset(history) for history in histories.values())


def _chain_key(kind: str, node: NodeRecord, shared_path: Mapping[str, str]) -> str:
    # Modules that update state are bound to calls of the same module, not to each other.
    if kind == "state" and node.op == "call_module":
        return f"state {shared_path.get(node.target, node.target)}"
    return kind
