"""The place of each guard's check in a graph: before the first call, or right after the call that gives the value.

Most nodes of the conditions have a twin: a node of the guarded graph with the same name, target and arguments, or the
node that a transform put in its place. A check takes the twin's value. All other nodes exist for the conditions alone.
A check computes them where they were asked.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator

from torch import nn

from fxcore.graph import Graph
from fxcore.guards import AFTER, Guards
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.purity import effects_of_node
from fxcore.nodes.shared_storage import SharedStorage

# The position of checks that need the inputs alone.
ENTRY = -1

_PYTHON = frozenset({"_operator", "builtins", "math"})


class Plan:
    """The checks of one graph.

    `checks` maps a position among the graph's nodes to the work right after this node, in order: a node of the
    conditions to compute, or the index of a guard to check. `needed_by` maps each such node to its first guard. `alone`
    are guards whose twins a transform removed: each is computed from the inputs, in a run of its own.
    """

    def __init__(self, graph: Graph, guards: Guards, module: nn.Module | None, *, at_entry: bool = False) -> None:
        """Plan checks for the present nodes of a graph. With `at_entry`, all stand before the first node."""
        self.nodes = nodes = list(graph.nodes)
        self._moved = graph.moved_values
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self._module = module
        self._positions = {node: ENTRY if node.op == "placeholder" else index for index, node in enumerate(nodes)}
        self._by_name = {node.name: node for node in nodes}
        self.twins: dict[Node, Node] = {}
        self._lost: set[Node] = set()  # nodes of the conditions whose twin is gone
        self._gone: set[Node] = set()  # inputs that the graph does not have any more
        self._ready: dict[Node, int] = {}
        self.checks: dict[int, list[Node | int]] = {}
        self.needed_by: dict[Node, int] = {}
        self.alone: set[int] = set()
        self.asked: tuple[Node, ...] = ()  # for each guard, the node of the conditions that Python asked about
        conditions = guards.graph
        assert conditions is not None  # checked guards have one
        self.asked = conditions.output_node().args[0]
        for node in conditions.nodes:
            if node.op != "output":
                self._find_twin(node)
        for index, node in enumerate(self.asked):
            self._place_guard(index, node, at_entry)

    @property
    def last(self) -> int:
        """The position of the last check."""
        return max(self.checks, default=ENTRY)

    def value_of(self, node: Node) -> Node:
        """Return the node that has the value of a node of the conditions: its twin, or itself."""
        return node if self._is_computed(node) else self.twins[node]

    def _is_computed(self, node: Node) -> bool:
        return node not in self.twins or (self.twins[node].op != "placeholder" and self._ready[node] == ENTRY)

    # Twins.

    def _find_twin(self, node: Node) -> None:
        found = self._by_name.get(self._moved.present(node.name))
        if node.op == "placeholder":
            # A guard about an input stays one, also if a transform converts the input for all readers.
            found = next((each for each in (*self.placeholders, found) if each and each.target == node.target), found)
            if found is None or found.op != "placeholder":
                self._gone.add(node)
            else:
                self.twins[node] = found
        else:
            for marked in (self._lost, self._gone):
                if not marked.isdisjoint(node.all_input_nodes):
                    marked.add(node)
            if AFTER not in node.meta and found is not None and self._is_twin(node, found):
                self.twins[node] = found
            elif AFTER not in node.meta and node.op != "get_attr":
                self._lost.add(node)
        if node not in self._lost and node not in self._gone:
            self._ready[node] = self._find_ready(node)

    def _is_twin(self, node: Node, found: Node) -> bool:
        if node.name in self._moved.names:
            return True  # a transform put the found node in the place of the trace's

        def twin(value: Node) -> Node:
            return self.twins.get(value, value)

        same_call = found.op == node.op and found.target == node.target
        return same_call and bool(
            (map_values(node.args, twin), map_values(node.kwargs, twin)) == (found.args, found.kwargs)
        )

    # Positions.

    def _find_ready(self, node: Node) -> int:
        """Return the position after which a node's value can be computed as it was in the trace."""
        if node.op in ("placeholder", "get_attr"):
            return ENTRY
        earliest = max((self._ready[value] for value in node.all_input_nodes), default=ENTRY)
        twin = self.twins.get(node)
        if twin is not None:
            asked = self._positions[twin]
            # These calls cost nothing beside the calls of a graph, and give the same value twice.
            is_cheap = node.target in (operator.getitem, getattr) or _is_plain(node)
            is_free = earliest == ENTRY and is_cheap and not self._changes(node, earliest, asked)
            return ENTRY if is_free else asked
        after = self._by_name.get(self._moved.present(node.meta.get(AFTER, "")))
        asked = ENTRY if after is None else self._positions[after]
        return asked if self._changes(node, earliest, asked) else earliest

    def _changes(self, node: Node, after: int, until: int) -> bool:
        """Return whether the graph changes a node's answer at a position in (after, until]."""
        effects = effects_of_node(node, self._module)
        if effects.kinds:
            return after < until  # random numbers are drawn in their order
        writers = {writer: index for index, writer in self.writers if after < index <= until}
        if (effects.asks or node.target is getattr) and node.all_input_nodes:
            writers = {writer: index for writer, index in writers.items() if self._is_reshaping(writer)}
        elif any(effects_of_node(writer, self._module).changes_global_state for writer in writers):
            return True
        if not writers:
            return False
        written = (writer for root in self._roots(node) for writer in self._storage.writers(root))
        return not writers.keys().isdisjoint(written) or self._reads_written_state(node, writers)

    def _is_reshaping(self, writer: Node) -> bool:
        facts = effects_of_node(writer, self._module).facts
        return "changes_attributes" in facts or "mutates" in facts

    @functools.cached_property
    def writers(self) -> list[tuple[int, Node]]:
        """All nodes that write, change global state, or run unknown code, with their positions."""
        found = []
        for index, node in enumerate(self.nodes):
            if node.op.startswith("call_"):
                effects = effects_of_node(node, self._module)
                if not effects.is_plain or "out" in node.kwargs or not effects.facts:
                    found.append((index, node))
        return found

    @functools.cached_property
    def _storage(self) -> SharedStorage:
        return SharedStorage(self.nodes, self._module)

    def _roots(self, node: Node) -> Iterator[Node]:
        """Yield the nodes of the graph whose memory a node of the conditions reads."""
        for value in node.all_input_nodes:
            if value in self.twins and not _is_plain(value):
                yield self.twins[value]
            elif value.op == "get_attr":
                yield from [each for each in self.nodes if each.op == "get_attr" and each.target == value.target]
            elif not _is_plain(value):
                yield from self._roots(value)

    def _reads_written_state(self, node: Node, writers: Iterable[Node]) -> bool:
        """Return whether a called module may write an attribute that a node reads."""
        paths = [str(value.target) for value in node.all_input_nodes if value.op == "get_attr"]
        return any(
            path.startswith(f"{writer.target}.") for path in paths for writer in writers if writer.op == "call_module"
        )

    # Checks.

    def _place_guard(self, index: int, node: Node, at_entry: bool) -> None:
        if node in self._gone:
            return  # without the input, the graph computes another function
        if node in self._lost or (at_entry and self._ready[node] != ENTRY):
            self.alone.add(index)
            self.checks.setdefault(ENTRY, []).append(index)
            return
        self._place_node(node, index)
        self.checks.setdefault(self._ready[node], []).append(index)

    def _place_node(self, node: Node, guard: int) -> None:
        if not self._is_computed(node) or node in self.needed_by:
            return
        for value in node.all_input_nodes:
            self._place_node(value, guard)
        self.checks.setdefault(self._ready[node], []).append(node)
        self.needed_by[node] = guard


def _is_plain(node: Node) -> bool:
    """Return whether a call gives a number, a type or another value without memory that a graph can write."""
    if node.op not in ("call_function", "call_method"):
        return False
    effects = effects_of_node(node, None)
    if node.target is getattr:
        return "non_aliasing" in effects.facts
    if effects.asks:
        return bool(node.target != "keys")  # a dict may have tensors as keys
    return getattr(node.target, "__module__", "") in _PYTHON and all(map(_is_plain, node.all_input_nodes))
