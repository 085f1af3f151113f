"""The memory that the values of a graph take at each node, and the nodes that hold the peak."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from fxcore.node import Node
from fxcore.transforms.analysis.costs import aligned, module_path
from fxcore.transforms.analysis.values import GraphValues


@dataclass(frozen=True)
class Held:
    """Memory that one node made and that later nodes need."""

    node: Node
    bytes: int


@dataclass(frozen=True)
class ActivationMemory:
    """The memory of inputs and intermediate values while a graph runs, without parameters and buffers."""

    nodes: tuple[Node, ...]
    live: tuple[int, ...]  # bytes while each node runs
    holders: tuple[Held, ...]  # of the peak, the largest first

    @property
    def peak(self) -> int:
        """Most bytes that are live at once."""
        return max(self.live, default=0)

    @property
    def peak_node(self) -> Node | None:
        """The first node at the peak, or None for an empty graph."""
        return self.nodes[self.live.index(self.peak)] if self.live else None

    def table(self, most: int = 10) -> str:
        """Write the nodes that hold the peak, the largest first."""
        rows = [(held.node.name, module_path(held.node) or "(root)", f"{held.bytes:,}") for held in self.holders[:most]]
        left = sum(held.bytes for held in self.holders[most:])
        rest = [(f"{len(self.holders) - most} more", "", f"{left:,}")] if left else []
        return aligned([("node", "module", "bytes"), *rows, *rest, ("total", "", f"{self.peak:,}")])


def activation_memory(values: GraphValues) -> ActivationMemory:
    """Find the memory that is live at each node, if every value is freed after its last reader.

    Inputs stay to the end, because their caller holds them, and so do the results of the graph. Values that share
    storage are counted once, and the last of them frees the storage. The memory that an operator needs for itself is
    unknown.
    """
    nodes = tuple(values.graph.nodes)
    born, died = _lifetimes(nodes, values)
    sizes = {spec.storage: spec.storage_bytes for node in nodes for spec in values.tensors(node)}
    changes = [0] * (len(nodes) + 1)
    for storage, (place, _) in born.items():
        changes[place] += sizes[storage]
        changes[died[storage] + 1] -= sizes[storage]
    live = list(accumulate(changes[:-1]))
    peak = live.index(max(live)) if live else 0
    held: dict[Node, int] = {}
    for storage, (place, node) in born.items():
        if place <= peak <= died[storage] and sizes[storage]:
            held[node] = held.get(node, 0) + sizes[storage]
    holders = [Held(node, size) for node, size in held.items()]
    return ActivationMemory(nodes, tuple(live), tuple(sorted(holders, key=lambda each: -each.bytes)))


def _lifetimes(nodes: tuple[Node, ...], values: GraphValues) -> tuple[dict[int, tuple[int, Node]], dict[int, int]]:
    """Map each storage to the place of its making, and to the place after which it is free."""
    places = {node: place for place, node in enumerate(nodes)}
    last_read = {node: max((places[user] for user in node.users if user in places), default=places[node])
                 for node in nodes}  # fmt: skip
    born: dict[int, tuple[int, Node]] = {}
    died: dict[int, int] = {}
    for place, node in enumerate(nodes):
        is_input = node.op == "placeholder"
        for spec in values.tensors(node):
            if spec.storage in values.state_storages:
                continue
            # All inputs are there before the first node runs.
            born.setdefault(spec.storage, (0 if is_input else place, node))
            end = len(nodes) - 1 if is_input else last_read[node]
            died[spec.storage] = max(died.get(spec.storage, 0), end)
    return born, died
