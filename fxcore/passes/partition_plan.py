"""The plan of a split: partitions and their order, the values between them, regions of autocast and grad mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import is_grad_enabled  # this and the next ones are torch's own, also while a trace replaces them
from torch._C import _set_grad_enabled
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.utils import _pytree as pytree

from fxcore.errors import GraphArgumentError, GraphError
from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.passes.dependency_order import in_dependency_order
from fxcore.passes.part_graph import PartGraph


class Partition(PartGraph):
    """Nodes that go into one submodule, with the submodule's inputs, outputs and graph.

    `inputs`, `outputs`, `dependencies` and `dependents` are ordered sets of names: dicts without values.
    """

    def __init__(self, name: str) -> None:
        """Make a partition without nodes."""
        super().__init__()
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.targets: dict[str, Any] = {}  # the attributes that the graph here refers to

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n"
            f" nodes: {self.node_names},\n"
            f" inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


def is_state_switch(node: Node) -> bool:
    """Return whether `node` enters or leaves autocast, or sets grad mode."""
    return node.op == "call_function" and node.target in (_enter_autocast, _exit_autocast, _set_grad_enabled)


def constant_switch(node: Node) -> tuple[Any, ...]:
    """Return the arguments of a switch in a partition.

    `_set_grad_enabled(is_grad_enabled())` ends a block without gradients. Partitions run in an order of their own, so
    the mode before the block is taken to be grad mode.
    """
    restored = node.target is _set_grad_enabled and node.all_input_nodes
    return (True,) if restored and restored[0].target is is_grad_enabled else node.args


@dataclass
class StateRegions:
    """The sorted numbers of the partitions with nodes that each switch holds for."""

    grad: dict[Node, list[int]] = field(default_factory=dict)
    autocast: dict[Node, list[int]] = field(default_factory=dict)
    autocast_exits: dict[Node, Node] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.grad or self.autocast)


def find_state_regions(nodes: Iterable[Node], partition_numbers: Mapping[Node, int]) -> StateRegions:
    """Follow the switches through `nodes`, which are in order.

    Raises GraphArgumentError (an AssertionError) if an autocast is entered and never left, or if a switch is set
    by a computed value.
    """
    regions = StateRegions()
    holding: set[Node] = set()  # running autocasts
    grad_switch: Node | None = None
    reached: dict[Node, set[int]] = {}
    for node in nodes:
        number = partition_numbers[node]
        if is_state_switch(node):
            if node.target is _exit_autocast:
                entered = _entered(node)
                reached[entered].add(number)
                holding.remove(entered)
                regions.autocast_exits[entered] = node
            else:
                _check_constant(node)
                reached[node] = {number}
                if node.target is _enter_autocast:
                    holding.add(node)
                else:
                    grad_switch = node
        for switch in (*holding, *([grad_switch] if grad_switch else ())):
            reached[switch].add(number)
    if holding:
        names = ", ".join(sorted(node.name for node in holding))
        raise GraphArgumentError(f"autocast must exit: {names} is entered and never left in this graph")
    for switch, numbers in reached.items():
        found = regions.autocast if switch in regions.autocast_exits else regions.grad
        found[switch] = sorted(numbers)
    return regions


def _entered(exit_node: Node) -> Node:
    entered = exit_node.args[0] if len(exit_node.args) == 1 else None
    if not isinstance(entered, Node):
        raise GraphArgumentError(
            f"Expected 1 arg for _exit_autocast, the node that entered it; {exit_node.name} has {exit_node.args}"
        )
    return entered


def _check_constant(switch: Node) -> None:
    if any(isinstance(each, Node) for each in constant_switch(switch)):
        raise GraphArgumentError(
            f"Expected all args to be python constants, not Nodes: {switch.name} is set by "
            f"{', '.join(node.name for node in switch.all_input_nodes)}, so no partition could repeat it"
        )


def check_partitions_rise(nodes: Iterable[Node], partition_numbers: Mapping[Node, int]) -> None:
    """Raise GraphArgumentError (an AssertionError) if a node is in an earlier partition than one before it."""
    highest = -1
    for node in nodes:
        number = partition_numbers[node]
        if number < highest:
            raise GraphArgumentError(
                "autocast or set_grad_enabled require monotonically increasing partitions: "
                f"highest: {highest}, this node's: {number} ({node.name})"
            )
        highest = number


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def symbol_defined_by(node: Node) -> Any | None:
    """Return the symbol that the value of `node` is. Return None for other values, such as a formula over symbols."""
    value = node.meta.get("example_value")
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return None
    expression = value.node.expr
    return expression if expression.is_Symbol else None


def symbols_in(node: Node) -> list[Any]:
    """Return the symbols that the recorded value of `node` has in its sizes, sorted by name."""
    numbers = [each for each in _numbers_in(node.meta.get("example_value")) if isinstance(each, _SYMBOLIC)]
    return sorted(set().union(*(each.node.expr.free_symbols for each in numbers)), key=str)


def _numbers_in(value: Any) -> Iterator[Any]:
    for leaf in pytree.tree_leaves(value):
        if not isinstance(leaf, torch.Tensor):
            yield leaf
        elif leaf.layout is torch.strided:
            yield from (*leaf.size(), *leaf.stride(), leaf.storage_offset())
        else:
            yield from leaf.size()


class PartitionPlan:
    """The partitions of a graph, in the order of their first nodes in the graph."""

    def __init__(self, graph: Graph, split_callback: Callable[[Node], Any], affix: str | None) -> None:
        """Ask `split_callback` once for every call in `graph`, and follow the values between partitions.

        Each node's partition is noted on the node too, as `_fx_partition`. Raises GraphError (a RuntimeError) if
        partitions depend on one another in a circle.
        """
        self.graph = graph
        self.partitions: dict[str, Partition] = {}
        self.by_name: dict[str, Node] = {node.name: node for node in graph.nodes}
        self._affix = affix
        self._partition_of: dict[Node, Partition] = {}
        self._defining: dict[Any, Node] = {}  # symbol -> the node that has it as its value
        self.calls = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
        numbers = {node: split_callback(node) for node in self.calls}
        for node in self.calls:
            self._assign(node, self.name_of(numbers[node]))
        self.regions: StateRegions = find_state_regions(self.calls, numbers)
        if self.regions:
            check_partitions_rise(self.calls, numbers)
        self._follow_values()
        self.sorted_names = self._sorted_names()

    def name_of(self, number: Any) -> str:
        """Return the name of the partition that `split_callback` calls `number`."""
        return str(number) if self._affix is None else f"{self._affix}_{number}"

    def partition_of(self, node: Node) -> Partition | None:
        """Return the partition of `node`, or None for inputs, attributes and the output."""
        return self._partition_of.get(node)

    def _assign(self, node: Node, name: str) -> None:
        partition = self.partitions.get(name)
        if partition is None:
            partition = self.partitions[name] = Partition(name)
        partition.node_names.append(node.name)
        self._partition_of[node] = partition
        node._fx_partition = name  # type: ignore[attr-defined]  # read by users, as torch.fx leaves it there

    def _follow_values(self) -> None:
        for node in self.graph.nodes:
            symbol = symbol_defined_by(node)
            if symbol is not None:
                self._defining.setdefault(symbol, node)
        for node in self.graph.nodes:
            # Every partition repeats the switches of global state. The value of a switch crosses no border.
            if node.op not in ("placeholder", "get_attr") and not is_state_switch(node):
                reader = self.partition_of(node)
                for value in node.all_input_nodes:
                    self._note_use(value, reader)

    def _note_use(self, value: Node, reader: Partition | None) -> None:
        source = self.partition_of(value)
        if source is reader:
            return
        if source is not None:
            source.outputs[value.name] = None
        if reader is not None:
            reader.inputs[value.name] = None
            # The symbols in its sizes too, because the code of the reader's graph will ask for them.
            for definition in filter(None, map(self._defining.get, symbols_in(value))):
                of_symbol = self.partition_of(definition)
                if of_symbol is not reader:
                    self._hand_over(definition, of_symbol, reader)
            self._hand_over(value, source, reader)

    def _hand_over(self, value: Node, source: Partition | None, reader: Partition) -> None:
        reader.inputs[value.name] = None
        if source is not None:
            source.outputs[value.name] = None
            source.dependents[reader.name] = None
            reader.dependencies[source.name] = None

    def _sorted_names(self) -> list[str]:
        needs = {name: len(partition.dependencies) for name, partition in self.partitions.items()}
        found = in_dependency_order(needs, lambda name: self.partitions[name].dependents, lambda name, time: -time)
        if len(found) != len(self.partitions):
            circle = ", ".join(name for name in self.partitions if name not in found)
            raise GraphError(
                f"cycle exists between partitions! None of these can run first: {circle}; give the nodes between "
                "them to one of them"
            )
        return found
