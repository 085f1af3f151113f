"""Which values of a graph may share memory, and which nodes write to that memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn
from torch._ops import OpOverload

from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import is_impure
from fxcore.nodes.dead_code import facts_of_call, may_alias
from fxcore.operators.table import names_mutation

__all__ = ["SharedStorage", "is_repeatable"]


def is_repeatable(node: Node, module: Any) -> bool:
    """Tell whether a call is known to give equal values for equal arguments, and to do nothing else.

    False for random calls, for calls that write, and for functions and modules that nothing is known of.
    """
    facts = facts_of_call(node, module)
    if not node.op.startswith("call_") or is_impure(node, module, impure_random=False):
        return False
    is_random = _holds(facts["random_if"], node) if "random_if" in facts else "random" in facts
    if is_random or _holds(facts.get("writes_if", ((), None))[1], node) or names_mutation(str(node.target)):
        return False
    if node.op == "call_module":
        layer: Any = get_attribute(module, str(node.target))
        hooks = any(vars(layer).get(name) for name in ("_forward_hooks", "_forward_pre_hooks"))
        return "non_aliasing" in facts and not hooks and not (layer.training and _changes_in_training(layer))
    return isinstance(node.target, OpOverload) or "non_aliasing" in facts or "view" in facts


def _holds(condition: Any, node: Node) -> bool:
    """Tell whether the argument that decides on an effect, given as position, names and default, may be true."""
    if condition is None:
        return False
    position, names, default = condition
    given = [node.kwargs[name] for name in names if name in node.kwargs]
    if len(node.args) > position:
        given.append(node.args[position])
    return bool(given[0] if given else default) or any(isinstance(value, Node) for value in given)


def _changes_in_training(layer: nn.Module) -> bool:
    """Tell whether a layer of torch draws or keeps something in training: it has a rate, or buffers."""
    is_random = hasattr(layer, "p") or hasattr(layer, "dropout") or isinstance(layer, nn.RReLU)
    return is_random or any(True for _ in layer.buffers())


class SharedStorage:
    """Groups of values that may share memory. What is not known shares and writes: the safe answer."""

    def __init__(self, nodes: Iterable[Node], module: Any) -> None:
        """Look at `nodes`, in order; paths are looked up in `module`. The graph must not change afterwards."""
        self._module = module
        self._parents: dict[Node, Node] = {}
        self._writers: dict[Node, list[Node]] = {}
        self._states: dict[str, Node] = {}
        self._order = {node: number for number, node in enumerate(nodes)}
        for node in self._order:
            self._parents[node] = node
            for shared in self._shares_with(node):
                self._parents[self._root(node)] = self._root(shared)
        for node in self._order:
            for value in self._written_by(node):
                self._writers.setdefault(self._root(value), []).append(node)
        returned = [value for node in self._order if node.op == "output" for value in node.all_input_nodes]
        self._returned = {self._root(value) for value in returned}

    def _root(self, node: Node) -> Node:
        while (parent := self._parents[node]) is not node:
            self._parents[node] = self._parents[parent]
            node = parent
        return node

    def writers(self, node: Node) -> list[Node]:
        """Return the nodes that may write to memory of the value of `node`, in order."""
        return self._writers.get(self._root(node), [])

    def made_before(self, node: Node) -> list[Node]:
        """Return the nodes before `node` whose values may share memory with its own, in order."""
        root = self._root(node)
        return [each for each, number in self._order.items() if number < self._order[node] and self._root(each) is root]

    def writers_after(self, node: Node) -> list[Node]:
        """Return the nodes after `node` that may write to memory of its value, in order."""
        return [writer for writer in self.writers(node) if self._order[writer] > self._order[node]]

    def is_returned(self, node: Node) -> bool:
        """Tell whether the graph may return memory of the value of `node`."""
        return self._root(node) in self._returned

    def is_written_between(self, node: Node, first: Node, last: Node) -> bool:
        """Tell whether a node from `first` to `last` may write to memory of the value of `node`."""
        return any(self._order[first] <= self._order[writer] <= self._order[last] for writer in self.writers(node))

    def _shares_with(self, node: Node) -> Iterator[Node]:
        if node.op == "get_attr":
            yield self._states.setdefault(str(node.target), node)
        elif node.op == "placeholder":  # callers may give one tensor twice
            yield self._states.setdefault("*inputs", node)
        elif node.op != "output" and may_alias(node, self._module) and not _gives_plain_values(node):
            facts = facts_of_call(node, self._module)
            values = node.all_input_nodes
            yield from values[:1] if "view" in facts and node.args[:1] == (*values[:1],) else values

    def _written_by(self, node: Node) -> Iterator[Node]:
        if node.op in ("placeholder", "get_attr", "output"):
            return
        if node.op == "call_module":
            yield from self._written_by_module(node)
            return
        facts = facts_of_call(node, self._module)
        out = node.kwargs.get("out")
        yield from [
            value for value in node.all_input_nodes if value is out or (isinstance(out, tuple) and value in out)
        ]
        if _holds(facts.get("writes_if", ((), None))[1], node):
            yield from node.all_input_nodes
        if isinstance(node.target, OpOverload):
            yield from _written_by_schema(node)
        elif is_impure(node, self._module) and "random" not in facts:
            yield from node.all_input_nodes if not node.args else _nodes(node.args[0])
        elif not facts and not _gives_plain_values(node):  # a function of the user's
            yield from node.all_input_nodes

    def _written_by_module(self, node: Node) -> Iterator[Node]:
        if is_repeatable(node, self._module):
            return
        yield from node.all_input_nodes
        # What it keeps may be read by path, too.
        path = f"{node.target}."
        yield from [state for name, state in self._states.items() if name.startswith(path)]


def _written_by_schema(node: Node) -> Iterator[Node]:
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            yield from _nodes(given)


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [each for each in value if isinstance(each, Node)] if isinstance(value, (list, tuple)) else []


def _gives_plain_values(node: Node) -> bool:
    """Tell whether a call gives a size or another attribute that is no tensor."""
    if node.target is getattr:
        return node.args[1:2] in (("shape",), ("dtype",), ("device",), ("ndim",), ("is_cuda",), ("requires_grad",))
    return node.op == "call_method" and node.target in ("size", "dim", "numel", "stride", "item")
