"""Growing partitions: merging two where no value then leaves the result and comes back."""

from __future__ import annotations

from collections.abc import Iterable

from fxcore.node import Node


class Partition:
    """Nodes that become one submodule, with the position of each counted from the end of the graph."""

    def __init__(
        self,
        id: int | None = None,  # noqa: A002 - torch.fx's public name
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        """Hold `nodes`."""
        self.id = id
        self.nodes: dict[Node, int | None] = {}
        if nodes is not None and node_orders is None:
            self.nodes = dict.fromkeys(nodes)
        elif nodes is not None and node_orders is not None:
            self.nodes = dict(zip(nodes, node_orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Take `node` in."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Let `node` go."""
        del self.nodes[node]

    def size(self) -> int:
        """Return how many nodes there are."""
        return len(self.nodes)


class PartitionGrowth:
    """Partitions by number, while they grow from the end of a graph towards its beginning.

    Sets of nodes are bits of one integer each: what a node reaches is asked for at every merge, and a graph of
    10,000 nodes would need as many sets of as many nodes.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Find what every node reaches; `nodes` are the graph's, in order."""
        nodes = list(nodes)
        self._bit = {node: 1 << position for position, node in enumerate(nodes)}
        self._reached_by: dict[Node, int] = {}
        for node in reversed(nodes):
            self._reached_by[node] = self._reached_through(node.users)
        self.partitions: dict[int, Partition] = {}
        self.assignment: dict[Node, int] = {}
        self._first: dict[int, int] = {}  # number of a partition -> the lowest number merged into it
        self._members: dict[int, int] = {}
        self._users: dict[int, set[Node]] = {}  # nodes outside that read a value of the partition
        self._reached: dict[int, int] = {}  # those, and all that they reach

    def _reached_through(self, users: Iterable[Node]) -> int:
        reached = 0
        for user in users:
            reached |= self._bit[user] | self._reached_by[user]
        return reached

    def start(self, number: int, node: Node, node_order: int) -> None:
        """Make partition `number` of one node."""
        self.partitions[number] = Partition(number, [node], [node_order])
        self.assignment[node] = number
        self._first[number] = number
        self._members[number] = self._bit[node]
        self._users[number] = set(node.users)
        self._reached[number] = self._reached_by[node]

    def numbers_in_order(self) -> list[int]:
        """Return the numbers of the partitions, those that reach furthest to the end of the graph first."""
        return sorted(self._first, key=self._first.__getitem__)

    def try_merge(self, one: int, other: int) -> int | None:
        """Merge two partitions and return the number of the result; None if a value would leave it and come back."""
        members = self._members[one] | self._members[other]
        users = {user for user in self._users[one] | self._users[other] if not self._bit[user] & members}
        reached = self._reached_through(users)
        if reached & members or self._reached_by_partitions(reached, {one, other}) & members:
            return None
        kept, gone = one, other
        if len(self.partitions[kept].nodes) < len(self.partitions[gone].nodes):
            kept, gone = gone, kept
        removed = self.partitions.pop(gone)
        self.partitions[kept].nodes.update(removed.nodes)
        for node in removed.nodes:
            self.assignment[node] = kept
        self._first[kept] = min(self._first[kept], self._first.pop(gone))
        for table in (self._members, self._users, self._reached):
            del table[gone]
        self._members[kept], self._users[kept], self._reached[kept] = members, users, reached
        return kept

    def _reached_by_partitions(self, reached: int, but: set[int]) -> int:
        """Return what is reached from `reached` if every partition, `but` these, is one node."""
        waiting = [number for number in self._members if number not in but]
        grows = True
        while grows:
            entered = [number for number in waiting if self._members[number] & reached]
            waiting = [number for number in waiting if not self._members[number] & reached]
            grows = bool(entered)
            for number in entered:
                reached |= self._reached[number]
        return reached

    def move(self, node: Node, number: int | None) -> None:
        """Take `node` out of its partition and into partition `number`, or into none."""
        before = self.assignment.pop(node, None)
        if before is not None:
            self.partitions[before].remove_node(node)
        if number is not None:
            self.assignment[node] = number
            self.partitions[number].add_node(node)
