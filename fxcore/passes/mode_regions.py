"""The regions of autocast and grad mode in a graph: the partitions that each switch reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast

from fxcore.errors import GraphArgumentError
from fxcore.node import Node


def is_state_switch(node: Node) -> bool:
    """Return whether `node` enters or leaves autocast, or sets grad mode."""
    return node.op == "call_function" and node.target in (
        _enter_autocast,
        _exit_autocast,
        torch._C._set_grad_enabled,
    )


def constant_switch(node: Node) -> tuple[Any, ...]:
    """Return the arguments of a switch in a partition.

    `_set_grad_enabled(is_grad_enabled())` ends a block without gradients. Partitions run in an order of their own, so
    the mode before the block is taken to be grad mode.
    """
    restored = node.target is torch._C._set_grad_enabled and node.all_input_nodes
    return (True,) if restored and restored[0].target is torch.is_grad_enabled else node.args


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
