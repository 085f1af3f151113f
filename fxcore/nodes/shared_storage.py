"""Values of a graph that may share memory, and the nodes that write to this memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn
from torch._ops import OpOverload

from fxcore.node import Node
from fxcore.node_data.purity import called_module, effects_of_node, is_impure
from fxcore.nodes.dead_code import may_alias
from fxcore.operators.kinds import overload_behind

__all__ = ["SharedStorage", "StorageSets", "is_repeatable"]


def is_repeatable(node: Node, module: Any) -> bool:
    """Return whether a call is known to give equal values for equal arguments, and to do nothing else.

    False for random calls, for calls that write, and for unknown functions and modules.
    """
    if not node.op.startswith("call_") or is_impure(node, module, impure_random=False):
        return False
    effects = effects_of_node(node, module)
    if effects.kinds_of_call(node.args, node.kwargs) or effects.written(node.args, node.kwargs):
        return False
    if node.op == "call_module":
        layer: nn.Module = called_module(node, module)
        hooks = any(vars(layer).get(name) for name in ("_forward_hooks", "_forward_pre_hooks"))
        return "non_aliasing" in effects.facts and not hooks
    is_operator = isinstance(overload_behind(node.target), OpOverload)
    return is_operator or "non_aliasing" in effects.facts or "view" in effects.facts


class StorageSets:
    """Disjoint sets of node positions that may share memory. The first position of a set is its name."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def first(self, position: int) -> int:
        """Return the first position in the set of `position`."""
        parent = self._parent
        while parent[position] != position:
            parent[position] = parent[parent[position]]
            position = parent[position]
        return position

    def all_first(self) -> list[int]:
        """Return `first` of every position. One pass is enough, because the first position of a set names the set."""
        parent = self._parent
        for position, other in enumerate(parent):
            parent[position] = parent[other]
        return list(parent)

    def join(self, position: int, other: int) -> None:
        """Record that two positions may share memory."""
        one, two = self.first(position), self.first(other)
        # The earlier position becomes the name, so that later joins keep it.
        if one < two:
            self._parent[two] = one
        else:
            self._parent[one] = two


class SharedStorage:
    """Groups of values that may share memory. Unknown calls count as sharing and writing, which is the safe answer."""

    def __init__(self, nodes: Iterable[Node], module: Any) -> None:
        """Look at `nodes`, in order; paths are looked up in `module`. The graph must not change afterwards."""
        self._module = module
        self._writers: dict[int, list[Node]] = {}
        self._states: dict[str, Node] = {}
        self._order = {node: number for number, node in enumerate(nodes)}
        self._sets = StorageSets(len(self._order))
        for node, number in self._order.items():
            for shared in self._shares_with(node):
                self._sets.join(number, self._order[shared])
        for node in self._order:
            for root in {self._root(value): None for value in self._written_by(node)}:
                self._writers.setdefault(root, []).append(node)
        returned = [value for node in self._order if node.op == "output" for value in node.all_input_nodes]
        self._returned = {self._root(value) for value in returned}

    def _root(self, node: Node) -> int:
        return self._sets.first(self._order[node])

    def writers(self, node: Node) -> list[Node]:
        """Return the nodes that may write to memory of the value of `node`, in order."""
        return self._writers.get(self._root(node), [])

    def made_before(self, node: Node) -> list[Node]:
        """Return the nodes before `node` whose values may share memory with its own, in order."""
        root = self._root(node)
        return [each for each, number in self._order.items() if number < self._order[node] and self._root(each) == root]

    def writers_after(self, node: Node) -> list[Node]:
        """Return the nodes after `node` that may write to memory of its value, in order."""
        return [writer for writer in self.writers(node) if self._order[writer] > self._order[node]]

    def is_returned(self, node: Node) -> bool:
        """Return whether the graph may return memory of the value of `node`."""
        return self._root(node) in self._returned

    def is_written_between(self, node: Node, first: Node, last: Node) -> bool:
        """Return whether a node from `first` to `last` may write to memory of the value of `node`."""
        return any(self._order[first] <= self._order[writer] <= self._order[last] for writer in self.writers(node))

    def _shares_with(self, node: Node) -> Iterator[Node]:
        if node.op == "get_attr":
            yield self._states.setdefault(str(node.target), node)
        elif node.op == "placeholder":  # callers may give one tensor twice
            yield self._states.setdefault("*inputs", node)
        elif node.op != "output" and may_alias(node, self._module):
            values = node.all_input_nodes
            is_view = "view" in effects_of_node(node, self._module).facts
            yield from values[:1] if is_view and node.args[:1] == (*values[:1],) else values

    def _written_by(self, node: Node) -> Iterator[Node]:
        if node.op in ("placeholder", "get_attr", "output"):
            return
        if node.op == "call_module":
            yield from self._written_by_module(node)
            return
        effects = effects_of_node(node, self._module)
        for value in effects.written(node.args, node.kwargs):
            yield from _nodes(value)
        if not (effects.facts or isinstance(overload_behind(node.target), OpOverload)):
            yield from node.all_input_nodes  # a function of the user, or an unknown one

    def _written_by_module(self, node: Node) -> Iterator[Node]:
        if is_repeatable(node, self._module):
            return
        yield from node.all_input_nodes
        # Other nodes may read the module's state by its path.
        path = f"{node.target}."
        yield from [state for name, state in self._states.items() if name.startswith(path)]


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [each for each in value if isinstance(each, Node)] if isinstance(value, (list, tuple)) else []
