"""A graph by positions: labels and inputs without names, chains of effects, accesses to storage, hashes of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pytest_fxgraph.document import text_writer
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.grouping import grouped


def shared_paths(records: Sequence[ModuleRecord | StateRecord]) -> dict[str, str]:
    """Map each path of a shared object to the first of its paths in alphabetical order.

    A record names the path that came first in its graph. The first path of the alphabet does not depend on the graph.
    """
    groups: dict[str, set[str]] = {}
    for record in records:
        if record.same_as is not None:
            groups.setdefault(record.same_as, {record.same_as}).add(record.path)
    return {path: min(group) for group in groups.values() for path in group}


def content_of(record: StateRecord, records: Mapping[str, StateRecord]) -> str | None:
    """Return the content of a tensor. Of several paths of one tensor, only the first has the content."""
    return records.get(record.same_as or "", record).content


def owners_of(path: str) -> Iterator[str]:
    """Yield a path and the paths of the modules around it."""
    while path:
        yield path
        path = path.rpartition(".")[0]


# "read" or "write", the storage, and the number of earlier writes to this storage.
Access = tuple[str, str, int]


class Effects(NamedTuple):
    """Effects of the nodes of one graph, by position."""

    chains: Mapping[str, tuple[int, ...]]  # nodes that must keep their order among themselves, by their common effect
    kinds: tuple[tuple[str, ...], ...]  # effects of each node without the names of storages, sorted
    storages: tuple[tuple[tuple[str, str], ...], ...]  # accesses of each node: ("read" or "write", name of storage)


def effects_of(nodes: Sequence[NodeRecord], shared_path: Mapping[str, str]) -> Effects:
    """Collect the effects of nodes; `shared_path` gives all paths of one module the same path."""
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
    """Map each node that touches a storage to its accesses. Only writes of counted nodes count as earlier writes."""
    written: Counter[str] = Counter()
    found: dict[int, tuple[Access, ...]] = {}
    for position, touched in enumerate(effects.storages):
        if not touched:
            continue
        found[position] = tuple((kind, storage, written[storage]) for kind, storage in touched)
        if is_counted(position):
            written.update({storage for kind, storage in touched if kind == "write"})
    return found


def access_epochs(
    effects: Effects, is_counted: Callable[[int], bool] = lambda _: True
) -> dict[int, tuple[tuple[str, int], ...]]:
    """Map each node that touches a storage to its accesses without the names of the storages."""
    return {
        position: tuple(sorted((kind, epoch) for kind, _, epoch in touched))
        for position, touched in accesses(effects, is_counted).items()
    }


def storage_histories(effects: Effects, rename: Callable[[int], int]) -> Counter[frozenset[tuple[int, str, int]]]:
    """Describe each storage, without its name, by its accesses: node, kind and number of earlier writes."""
    histories: dict[str, set[tuple[int, str, int]]] = {}
    for position, touched in accesses(effects, lambda _: True).items():
        for kind, storage, epoch in touched:
            histories.setdefault(storage, set()).add((rename(position), kind, epoch))
    return Counter(frozenset(history) for history in histories.values())


def _chain_key(kind: str, node: NodeRecord, shared_path: Mapping[str, str]) -> str:
    # A module that updates state keeps its order with calls of the same module only.
    if kind == "state" and node.op == "call_module":
        return f"state {shared_path.get(node.target, node.target)}"
    return kind


# Op, target, texts of the arguments without names, keyword arguments likewise and sorted by keyword.
Label = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]


def _without_names(text: str, positions: Mapping[str, int]) -> tuple[str, tuple[int, ...]]:
    """Split an argument's text into its rest without names and the nodes that it refers to, in order."""
    if "%" not in text:
        return text, ()
    # Without a search for references, reading a graph takes half as long.
    alone = positions.get(text[1:])
    if alone is not None:
        return "%", (alone,)
    known = [name for name in references(text) if name in positions]
    # A name cannot be empty, so a bare "%" outside quotes never looks like a written reference.
    return rename_references(text, dict.fromkeys(known, "")), tuple(positions[name] for name in known)


def _label_and_inputs(node: NodeRecord, positions: Mapping[str, int]) -> tuple[Label, tuple[int, ...]]:
    read: tuple[int, ...] = ()
    args = []
    for text in node.args:
        rest, names = _without_names(text, positions)
        args.append(rest)
        read += names
    kwargs = []
    # No keyword has a blank in it.
    for keyword, text in (*sorted(node.kwargs), *((f"meta {key}", text) for key, text in node.meta)):
        rest, names = _without_names(text, positions)
        kwargs.append((keyword, rest))
        read += names
    return (node.op, node.target, tuple(args), tuple(kwargs)), read


@dataclass(frozen=True)
class GraphIndex:
    """A document read for comparing: labels and inputs of its nodes, by position in the file and without names."""

    document: GraphDocument
    modules: Mapping[str, ModuleRecord]
    nodes: tuple[NodeRecord, ...]
    labels: tuple[Label, ...]
    inputs: tuple[tuple[int, ...], ...]  # in order of the arguments, then of the keywords; repeated if read twice
    effects: Effects

    @cached_property
    def users(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The readers of each node, as pairs of the reader and the place among the reader's inputs."""
        users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for reader, inputs in enumerate(self.inputs):
            for place, read in enumerate(inputs):
                users[read].append((reader, place))
        return tuple(map(tuple, users))

    @cached_property
    def state(self) -> Mapping[str, StateRecord]:
        """The tensors by path."""
        return {record.path: record for record in self.document.state}

    def callers(self, path: str) -> Sequence[int]:
        """Return the nodes that call the module, or read the tensor, at a path."""
        return self._callers.get(path, ())

    @cached_property
    def _callers(self) -> Mapping[str, Sequence[int]]:
        callers = [n for n, node in enumerate(self.nodes) if node.op in ("call_module", "get_attr")]
        return grouped(callers, lambda position: self.nodes[position].target)

    @cached_property
    def calls_inside(self) -> Mapping[str, Sequence[int]]:
        """The nodes below each module, by its path, without nodes that read a tensor."""
        inside: dict[str, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for path in owners_of(node.scope or "") if node.op != "get_attr" else ():
                inside.setdefault(path, []).append(position)
        return inside

    def operator(self, position: int) -> str:
        """Return the operator of a node: its target, or the class of the module that it calls."""
        node = self.nodes[position]
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return module.kind if module is not None else node.target

    def call_text(self, node: NodeRecord) -> str:
        """Write a node as goldens do, without its name and the facts behind it."""
        bare = node._replace(value=None, effects=(), scope=None, meta=(), name_from=None)
        called = text_writer.node_line(bare, node.name, text_writer.Texts(), "").removeprefix(f"%{node.name} = ")
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return f"{called}  # {module.kind}" if module is not None else called


def graph_index_of(document: GraphDocument) -> GraphIndex:
    """Read a document for comparing; a reference to a missing node stays a literal."""
    positions = {node.name: position for position, node in enumerate(document.nodes)}
    labels: list[Label] = []
    inputs: list[tuple[int, ...]] = []
    for node in document.nodes:
        label, read = _label_and_inputs(node, positions)
        labels.append(label)
        inputs.append(read)
    effects = effects_of(document.nodes, shared_paths(document.modules))
    modules = {module.path: module for module in document.modules}
    return GraphIndex(document, modules, document.nodes, tuple(labels), tuple(inputs), effects)


class NodeHashes:
    """Numbers for descriptions of nodes: equal numbers mean equal descriptions, without collisions.

    Both graphs of a comparison share one table.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, description: Hashable) -> int:
        """Return the number of a description, a new one for a new description."""
        return self._numbers.setdefault(description, len(self._numbers))


def input_hashes(
    graph: GraphIndex,
    marks: Sequence[Hashable],
    table: NodeHashes,
    describe: Callable[[int, Sequence[int]], Hashable] = lambda position, hashes: None,
) -> list[int]:
    """Number each node by its mark and the hashes of its inputs.

    `describe` may return another description of a node's inputs, from the node's position and the hashes so far.
    """
    hashes: list[int] = []
    for position, inputs in enumerate(graph.inputs):
        # An input stands before its node. In a broken document it may not, and gets no hash.
        read = tuple(hashes[other] if other < position else -1 for other in inputs)
        hashes.append(table.number(("reads", marks[position], describe(position, hashes) or read)))
    return hashes


def user_hashes(users: Sequence[Sequence[tuple[int, int]]], marks: Sequence[Hashable], table: NodeHashes) -> list[int]:
    """Number each node by its mark and the hashes and places of its readers; `users` as in GraphIndex."""
    hashes = [-1] * len(users)
    for position in reversed(range(len(users))):
        readers = [(hashes[reader], place) for reader, place in users[position]]
        hashes[position] = table.number(("read by", marks[position], *sorted(readers)))
    return hashes
