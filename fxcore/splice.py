"""Putting other nodes in the place of matched ones."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Any

from fxcore.arguments import map_values
from fxcore.correspondence import nodes_in
from fxcore.graph import Graph
from fxcore.node import Node

_position = attrgetter("_sort_key")


class Splice:
    """Replaces values of one graph by others.

    Readers of replaced values are rewritten, and replaced nodes erased, when `finish` is called: each reader once,
    however many of its arguments change. Until then, `resolve` tells what stands in the place of a value.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._replaced: dict[Node, Any] = {}
        # Those of them whose readers are still to be rewritten.
        self._unfinished: dict[Node, Any] = {}
        # The other way round: the values whose readers will read a node.
        self._stood_in_for: dict[Node, list[Node]] = {}
        self._dead: dict[Node, None] = {}
        # When a node last began to read something; readers of a value are listed in that order.
        self._joined: dict[Node, int] = {}
        self._to_rewrite: dict[Node, None] = {}
        self._clock = 0

    def resolve(self, value: Any) -> Any:
        """Return what stands in the place of a value by now; nested values are resolved in their containers."""
        return _follow(value, self._replaced)

    def replace(self, value: Node, replacement: Any, apart_from: Container[Node] = ()) -> None:
        """Let everybody who reads `value`, but for some nodes and those that are to be erased, read `replacement`."""
        if replacement is value:
            return
        name = replacement._name if isinstance(replacement, Node) else repr(replacement)
        hooks = getattr(self._graph.owning_module, "_replace_hooks", None) or ()
        for reader in self.readers(value):
            if reader in apart_from:
                continue
            for hook in hooks:
                hook(old=value, new=name, user=reader)
            self._to_rewrite[reader] = None
            self._note_joined(reader)
        self._replaced[value] = self._unfinished[value] = replacement
        if isinstance(replacement, Node):
            self._stood_in_for.setdefault(replacement, []).append(value)

    def discard(self, nodes: Iterable[Node]) -> None:
        """Erase nodes, once their readers are rewritten."""
        self._dead.update(dict.fromkeys(nodes))

    def insert(self, before: Node, replacement: Graph, val_map: dict[Node, Any]) -> None:
        """Copy a graph to the place before a node, and fill in `val_map`."""
        with self._graph.inserting_before(before):
            self._graph.graph_copy(replacement, val_map)
        for original, copied in val_map.items():
            if original._op != "placeholder":
                self._note_joined(copied)

    def make_place(self, inputs: list[Node], values: list[Node], matched: list[Node]) -> Node | None:
        """Return the node to insert before, so that the `inputs` come before and readers of `values` after.

        Where an input stands behind a reader, it is moved to the front with all that it needs. None if there is no
        such place, since an input depends on one of the values.
        """
        readers = [reader for value in values for reader in self.readers(value)]
        place = min(readers, key=_position) if readers else max(values or matched, key=_position)._next
        late = self._needed(inputs, place)
        if not late.isdisjoint(readers):
            return None
        while place in late:
            late.discard(place)
            place = place._next
        for node in sorted(late, key=_position):
            place.prepend(node)
        return place

    def _needed(self, inputs: Iterable[Node], place: Node) -> set[Node]:
        """Return the nodes from `place` on that the inputs are, or are computed from."""
        end = place._sort_key if place._op != "root" else None
        needed: set[Node] = set()
        pending = list(inputs)
        while pending:
            node = pending.pop()
            if end is None or node._sort_key < end or node in needed:
                continue
            needed.add(node)
            for value in node._input_nodes:
                pending += nodes_in(self.resolve(value))
        return needed

    def readers(self, value: Node) -> list[Node]:
        """Return the nodes that read a value by now, in the order in which they began to."""
        dead = self._dead
        readers = [reader for reader in value.users if reader not in dead]
        if value in self._stood_in_for:
            pending = list(self._stood_in_for[value])
            while pending:
                current = pending.pop()
                readers += [reader for reader in current.users if reader not in dead]
                pending += self._stood_in_for.get(current, ())
            readers = list(dict.fromkeys(readers))
        return sorted(readers, key=self._time_joined) if len(readers) > 1 else readers

    def _time_joined(self, reader: Node) -> int:
        return self._joined.get(reader, 0)

    def _note_joined(self, reader: Node) -> None:
        self._clock += 1
        self._joined[reader] = self._clock

    def finish(self) -> None:
        """Rewrite the readers of replaced values and erase what was discarded."""
        rewritten = sorted([node for node in self._to_rewrite if node not in self._dead], key=self._joined.__getitem__)
        for reader in rewritten:
            kwargs = reader._kwargs and _follow(reader._kwargs, self._unfinished)
            reader._set_arguments(_follow(reader._args, self._unfinished), kwargs)
        # Backwards: whoever reads a node stands behind it.
        for node in sorted(self._dead, key=_position, reverse=True):
            self._graph.erase_node(node)
        for value in dict.fromkeys([value for reader in rewritten for value in reader._input_nodes]):
            self._list_in_order(value)
        for table in (self._unfinished, self._stood_in_for, self._dead, self._joined, self._to_rewrite):
            table.clear()

    def _list_in_order(self, value: Node) -> None:
        """List the readers of a value as they would be had each been rewritten at once."""
        times = [self._time_joined(reader) for reader in value.users]
        if any(earlier > later for earlier, later in pairwise(times)):
            value.users = dict.fromkeys(sorted(value.users, key=self._time_joined))


def _follow(value: Any, replaced: dict[Node, Any]) -> Any:
    if not isinstance(value, Node):
        return map_values(value, lambda node: _follow(node, replaced))
    while isinstance(value, Node) and value in replaced:
        value = replaced[value]
    return value
