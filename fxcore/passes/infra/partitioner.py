"""Fusion of all supported nodes of a graph into as few submodules as possible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.targets import qualified_name
from fxcore.passes.operator_support import OperatorSupportBase
from fxcore.passes.utils.fuser_utils import fuse_by_partitions


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

    Sets of nodes are bits of one integer each: every merge asks for the nodes that a node reaches, and a graph of
    10,000 nodes would need 10,000 sets.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Find the nodes that every node reaches; `nodes` are the graph's, in order."""
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
        self._reached: dict[int, int] = {}  # the outside users, and all nodes that they reach

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
        """Return the numbers of the partitions. Partitions that reach furthest to the end of the graph come first."""
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
        """Return the nodes reached from `reached` if every partition, except the ones in `but`, is one node."""
        waiting = self._members.keys() - but
        while entered := {number for number in waiting if self._members[number] & reached}:
            waiting -= entered
            for number in entered:
                reached |= self._reached[number]
        return reached

    def move(self, node: Node, number: int | None) -> None:
        """Move `node` from its partition into partition `number`, or into no partition."""
        before = self.assignment.pop(node, None)
        if before is not None:
            self.partitions[before].remove_node(node)
        if number is not None:
            self.assignment[node] = number
            self.partitions[number].add_node(node)


__all__ = ["CapabilityBasedPartitioner", "Partition"]

# Functions that compute nothing worth a submodule of its own.
_NO_COMPUTATION = frozenset({"torch.ops.aten.view", "_operator.getitem"})


class CapabilityBasedPartitioner:
    """Proposes partitions of supported nodes, and fuses them into submodules."""

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        """Take the module to partition and the table of supported nodes.

        Unless `allows_single_node_partition`, partitions with fewer than two computing functions are dropped. Functions
        named in `non_compute_ops` do not count, functions in `allowed_single_node_partition_ops` count double. With
        `skip_horizontal_fusion`, only nodes that read one another come together.
        """
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def propose_partitions(self) -> list[Partition]:
        """Return partitions of supported nodes. No partition depends on itself through another partition."""
        growth = self._grown()
        for partition in growth.partitions.values():
            partition.nodes = dict(sorted(partition.nodes.items(), key=operator.itemgetter(1), reverse=True))
        self._keep_items_with_their_tuple(growth)
        proposed = [each for each in growth.partitions.values() if each.size() > 0]
        return proposed if self.allows_single_node_partition else list(filter(self._pays, proposed))

    def _grown(self) -> PartitionGrowth:
        growth = PartitionGrowth(self.graph_module.graph.nodes)
        submodules = dict(self.graph_module.named_modules())
        started = 0
        for node_order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            if self.operator_support.is_node_supported(submodules, node):
                growth.start(started, node, node_order)
                _merge(growth, [started, *self._candidates(growth, node)])
                started += 1
        return growth

    def _candidates(self, growth: PartitionGrowth, node: Node) -> list[int]:
        """Return the partitions that can be merged with the new partition of `node`."""
        if self.skip_horizontal_fusion:
            return [growth.assignment[user] for user in node.users if user in growth.assignment]
        return growth.numbers_in_order()

    def _keep_items_with_their_tuple(self, growth: PartitionGrowth) -> None:
        """Move `getitem` nodes to where their tuple is made, so that no partition returns a tuple of tuples."""
        moves: dict[Node, int | None] | None = None
        while moves is None or moves:
            moves = {}
            for node in self.graph_module.graph.nodes:
                if all(_function_name(user) == "_operator.getitem" for user in node.users):
                    number = growth.assignment.get(node)
                    moves.update({user: number for user in node.users if growth.assignment.get(user) != number})
            for node, number in moves.items():
                growth.move(node, number)

    def _pays(self, partition: Partition) -> bool:
        count = 0
        for node in partition.nodes:
            if node.op == "call_function":
                name = _function_name(node)
                count += name not in _NO_COMPUTATION and name not in self.non_compute_ops
                count += name in self.allowed_single_node_partition_ops
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Replace each partition by a call of a submodule `<prefix><number>`; return the graph module, changed."""
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Remove nodes that compute nothing from the beginning and the end of their partition."""
        for partition in partitions:
            leads_in = self._transparency(partition, lambda node: node.all_input_nodes)
            leads_out = self._transparency(partition, lambda node: node.users)
            nodes = [node for node in partition.nodes if self._computes_nothing(node)]
            for node in [node for node in nodes if leads_in(node) or leads_out(node)]:
                partition.remove_node(node)

    def _transparency(
        self, partition: Partition, following: Callable[[Node], Iterable[Node]]
    ) -> Callable[[Node], bool]:
        """Return a function: does nothing in the partition compute from a node on, towards `following`?"""
        known: dict[Node, bool] = {}

        def is_transparent(node: Node) -> bool:
            if node not in partition.nodes or node.op == "placeholder":
                return True
            if node not in known:
                known[node] = self._computes_nothing(node) and all(is_transparent(each) for each in following(node))
            return known[node]

        return is_transparent

    def _computes_nothing(self, node: Node) -> bool:
        return node.op == "call_function" and _function_name(node) in self.non_compute_ops

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose partitions and fuse them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _merge(growth: PartitionGrowth, numbers: list[int]) -> None:
    """Merge as many of `numbers` as possible into the first. A pair that is refused once stays refused."""
    into, *others = dict.fromkeys(numbers)
    for other in others:
        result = growth.try_merge(into, other)
        if result is not None:
            into = result


def _function_name(node: Node) -> str:
    target = node.target
    return target if isinstance(target, str) else qualified_name(target)
