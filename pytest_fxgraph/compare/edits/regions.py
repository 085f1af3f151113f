"""Regions: connected removed, added and replaced nodes between unchanged nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph
from pytest_fxgraph.compare.edits.operator_words import common_path, home, is_check, moves_values_only
from pytest_fxgraph.compare.graph_index import GraphIndex


@dataclass
class Region:
    """Connected nodes that differ; both tuples hold positions in the order of execution."""

    expected: list[int] = field(default_factory=list)
    obtained: list[int] = field(default_factory=list)
    where: str = ""  # path of the module around all its nodes
    changes: list[Change] = field(default_factory=list)

    def joined(self, other: Region) -> Region:
        """Return one region of the nodes of two."""
        where = common_path((self.where, other.where))
        changes = self.changes + other.changes
        return Region(self.expected + other.expected, self.obtained + other.obtained, where, changes)


def regions_of(graph: ComparedGraph) -> list[Region]:
    """Put the unexplained added, removed and replaced nodes of a graph together."""
    finder = _Finder(graph)
    finder.join_neighbours()
    finder.join_checks()
    finder.join_sides()
    return [*finder.regions()]


def block_of(path: str | None) -> str:
    """Return the path up to its last number: the repeated block around a node; "" outside of blocks."""
    parts = (path or "").split(".")
    while parts and not parts[-1].isdecimal():
        parts.pop()
    return ".".join(parts)


class _Finder:
    """Sets of nodes that grow together; an obtained node has its position plus the number of expected nodes."""

    def __init__(self, graph: ComparedGraph) -> None:
        self._graph = graph
        self._offset = len(graph.expected.nodes)
        self._lone = {
            *(n for n in graph.lone_expected if graph.expected.nodes[n].op != "placeholder"),
            *(self._offset + n for n in graph.lone_obtained if graph.obtained.nodes[n].op != "placeholder"),
        }
        self._parents = {node: node for node in self._lone}
        self._joinable = set(self._lone)
        for partner, position in graph.replaced.items():
            if graph.obtained.nodes[partner].op != "placeholder":
                self._add_pair(position, partner, is_rewired=not graph.reads_the_same(position, partner))
        for position, partner, changes in graph.pair_changes():
            # The output would join all results of the graph.
            is_open = partner not in graph.replaced and graph.obtained.nodes[partner].op != "output"
            if is_open and (
                self._names_a_lone_node(position, partner, changes) or self._is_in_moved_values(position, partner)
            ):
                self._add_pair(position, partner, is_rewired=True)

    def _add_pair(self, position: int, partner: int, *, is_rewired: bool) -> None:
        self._parents.update({position: position, self._offset + partner: position})
        if is_rewired:
            self._joinable.update((position, self._offset + partner))

    def _names_a_lone_node(self, position: int, partner: int, changes: Iterable[Change]) -> bool:
        if not any(change.kind == "wiring" for change in changes):
            return False
        inputs, obtained_inputs = self._graph.expected.inputs[position], self._graph.obtained.inputs[partner]
        return any(n in self._lone for n in inputs) or any(self._offset + n in self._lone for n in obtained_inputs)

    def _is_in_moved_values(self, position: int, partner: int) -> bool:
        """Return whether a call that only moves values stands beside a removed and an added call that do so, too."""
        for index, own, offset in ((self._graph.expected, position, 0), (self._graph.obtained, partner, self._offset)):
            if not moves_values_only(index, [own]):
                return False
            beside = [*index.inputs[own], *(reader for reader, _ in index.users[own])]
            if not any(offset + n in self._lone and moves_values_only(index, [n]) for n in beside):
                return False
        return True

    def _root(self, node: int) -> int:
        while self._parents[node] != node:
            self._parents[node] = self._parents[self._parents[node]]
            node = self._parents[node]
        return node

    def _join(self, node: int, other: int) -> None:
        self._parents[self._root(node)] = self._root(other)

    def join_neighbours(self) -> None:
        """Join nodes with the nodes that they read, inside of one repeated block."""
        for index, offset in ((self._graph.expected, 0), (self._graph.obtained, self._offset)):
            for read in range(len(index.nodes)):
                if offset + read not in self._joinable:
                    continue
                readers = [reader for reader, _ in index.users[read]]
                blocks = {block_of(index.nodes[node].scope) for node in readers}
                if index.nodes[read].op != "get_attr":
                    blocks.add(block_of(index.nodes[read].scope))
                for reader in readers if len(blocks) == 1 else ():
                    if offset + reader in self._joinable:
                        self._join(offset + reader, offset + read)

    def join_checks(self) -> None:
        """Join an added or removed check of a value with a neighbour that reads the same value."""
        for index, offset in ((self._graph.expected, 0), (self._graph.obtained, self._offset)):
            for node in [node - offset for node in self._lone if 0 <= node - offset < len(index.nodes)]:
                if not is_check(index, node):
                    continue
                readers = {reader for read in index.inputs[node] for reader, _ in index.users[read]} - {node}
                for reader in readers:
                    if offset + reader in self._lone:
                        self._join(offset + node, offset + reader)

    def join_sides(self) -> None:
        """Join removed with added nodes where an unchanged node reads the added in place of the removed node."""
        graph = self._graph
        for node in [node for node in self._joinable if node < self._offset]:
            for reader, place in graph.expected.users[node]:
                partner = graph.alignment.obtained_of[reader]
                inputs = graph.obtained.inputs[partner] if partner >= 0 else ()
                if place < len(inputs) and self._offset + inputs[place] in self._joinable:
                    self._join(node, self._offset + inputs[place])

    def regions(self) -> Iterator[Region]:
        """Yield all regions in the order of the graphs."""
        found: dict[int, Region] = {}
        for node in sorted(self._parents):
            region = found.setdefault(self._root(node), Region())
            if node < self._offset:
                region.expected.append(node)
            else:
                region.obtained.append(node - self._offset)
        for region in found.values():
            self._complete(region)
            yield region

    def _complete(self, region: Region) -> None:
        graph = self._graph
        nodes = [graph.expected.nodes[n] for n in region.expected] + [graph.obtained.nodes[n] for n in region.obtained]
        # torch.export reads all tensors at the root.
        calls = [node.scope or "" for node in nodes if node.op != "get_attr"]
        region.where = common_path(calls or map(home, nodes))
        region.changes += [graph.removed[n] for n in region.expected if n in graph.removed]
        for n in region.obtained:
            region.changes += [graph.added[n]] if n in graph.added else graph.changed.get(n, ())
        region.changes += self._changed_paths(graph.expected, region.expected, graph.obtained)
        region.changes += self._changed_paths(graph.obtained, region.obtained, graph.expected)

    def _changed_paths(self, index: GraphIndex, positions: Iterable[int], other: GraphIndex) -> list[Change]:
        """List the changes of the tensors and modules that the nodes use, and that the other graph lacks."""
        nodes = [index.nodes[n] for n in positions]
        called = {node.target for node in nodes if node.op == "call_module" and node.target in index.modules}
        modules = {path for path in called if path not in other.modules}
        # Another module has taken over the path.
        action = "added" if index is self._graph.obtained else "removed"
        taken = [path for path in called - modules if other.modules[path].kind != index.modules[path].kind]
        exchanged = [change for path in taken for change in self._graph.modules.get(path, ())]
        exchanged += [change for change in self._graph.of_paths(taken) if change.action == action]
        tensors = self._graph.of_paths({node.target for node in nodes if node.op == "get_attr"})
        return self._graph.of_paths(modules) + exchanged + [each for each in tensors if each.action != "changed"]
