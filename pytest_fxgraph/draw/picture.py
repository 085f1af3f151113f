"""A picture as plain data: nodes, edges, and clusters of nodes that can be folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_fxgraph.draw.layers import Layers, layers_of

Way = tuple[str, int, str, int, str]  # source sort and number, target sort and number, status

FEWEST_FOLDED = 40  # nodes; a smaller graph is drawn whole
# Status of a node: in one graph alone, different, different in its value alone ("followed"), or equal ("").
STATUSES = ("added", "removed", "changed", "followed", "")


@dataclass(frozen=True)
class Fact:
    """A fact of a node. Two texts where two graphs differ; an empty text where a graph lacks the fact."""

    what: str
    expected: str
    obtained: str


@dataclass(frozen=True)
class DrawnNode:
    """One node of a picture."""

    name: str
    label: str  # its operation: "relu", "Conv2d", "transpose(1, 2)"
    place: str  # a second line: its place in its module; may be empty
    sort: str  # "input", "output", "state", "module", "call"
    value: str  # the shape on its edges; may be empty
    status: str = ""
    facts: tuple[Fact, ...] = ()
    sides: tuple[tuple[str, str], ...] = ()  # label and shape in either graph, where the two graphs differ
    change: str = ""  # the changed field, as a line of the box: "stride 2 → 1"


@dataclass(frozen=True)
class Edge:
    """A value on its way from one node to another, by their numbers."""

    source: int
    target: int
    status: str = ""


@dataclass
class Cluster:
    """Nodes and clusters that are drawn in one box.

    Children are numbered like nodes. Numbers beyond the nodes are clusters.
    """

    number: int
    label: str
    sort: str  # "graph", "module", "repeated", "unchanged", "part"
    path: str = ""  # of the module
    children: list[int] = field(default_factory=list)
    nodes: int = 0  # number of nodes in the cluster and in its inner clusters
    changes: dict[str, int] = field(default_factory=dict)  # status to the number of nodes
    ports_in: list[int] = field(default_factory=list)  # outer nodes with readers inside
    ports_out: list[int] = field(default_factory=list)  # inner nodes with readers outside
    layers: Layers = field(default_factory=lambda: Layers((), ()))


class Seen(NamedTuple):
    """A visible box of a picture: a node, or a cluster that is folded, opens or ends."""

    child: int
    depth: int  # clusters around it, without the outermost
    box: DrawnNode | Cluster
    state: str = ""  # of a cluster: "" if it is folded, else "open" or "end"


@dataclass(frozen=True)
class Picture:
    """A graph, or the overlay of two, ready to be laid out."""

    title: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...]  # the first is the whole graph
    is_overlay: bool = False

    @property
    def root(self) -> Cluster:
        """Return the cluster around all others."""
        return self.clusters[0]

    def cluster(self, child: int) -> Cluster | None:
        """Return the cluster of a child's number, None for a node."""
        return self.clusters[child - len(self.nodes)] if child >= len(self.nodes) else None

    def parents(self) -> dict[int, Cluster]:
        """Map each node and cluster to the cluster around it. The outermost cluster is no key."""
        return {child: cluster for cluster in self.clusters for child in cluster.children}

    def opened(self, most: int) -> frozenset[int]:
        """Return the clusters to open, with at most about `most` visible boxes. Changed clusters are opened first.

        Repetitions stay closed. A graph of fewer than FEWEST_FOLDED nodes is opened whole.
        """
        if len(self.nodes) < min(FEWEST_FOLDED, most):
            return self.all_opened()
        opened, seen = {self.root.number}, len(self.root.children)
        waiting = [self.root]
        for cluster in waiting:
            inner = [found for child in cluster.children if (found := self.cluster(child)) is not None]
            for each in sorted(inner, key=lambda found: not found.changes):
                is_wanted = each.sort != "repeated" and (bool(each.changes) or not self.is_overlay)
                if is_wanted and seen + len(each.children) <= most:
                    opened.add(each.number)
                    waiting.append(each)
                    seen += len(each.children)
        return frozenset(opened)

    def all_opened(self) -> frozenset[int]:
        """Return all clusters."""
        return frozenset(cluster.number for cluster in self.clusters)

    def walk(self, opened: Collection[int], around: Cluster | None = None, depth: int = 0) -> Iterator[Seen]:
        """Yield the visible boxes from the outside to the inside. An open cluster yields a second time at its end."""
        for child in (around or self.root).children:
            inner = self.cluster(child)
            if inner is None:
                yield Seen(child, depth, self.nodes[child])
            elif child in opened:
                yield Seen(child, depth, inner, "open")
                yield from self.walk(opened, inner, depth + 1)
                yield Seen(child, depth, inner, "end")
            else:
                yield Seen(child, depth, inner)

    def labelled_edges(self, opened: Collection[int]) -> Iterator[tuple[int, int, str, str]]:
        """Yield source, target, status and shape of each visible edge. An edge of several values has no shape."""
        for (source, target, status), values in sorted(self.visible_edges(opened).items()):
            yield source, target, status, self.nodes[min(values)].value if len(values) == 1 else ""

    def visible_edges(self, opened: Collection[int]) -> dict[tuple[int, int, str], set[int]]:
        """Map source, target and status of each visible edge to the nodes whose values flow."""
        parents = self.parents()
        # The outermost box around a node that is not open, or the node.
        shown = [
            next(child for child, _ in reversed([*way_up(node, parents)]) if child not in opened)
            for node in range(len(self.nodes))
        ]
        found: dict[tuple[int, int, str], set[int]] = {}
        for edge in self.edges:
            ends = shown[edge.source], shown[edge.target]
            if ends[0] != ends[1]:
                found.setdefault((*ends, edge.status), set()).add(edge.source)
        return found


def lay_in_layers(picture: Picture) -> Picture:
    """Find the ports and layers of each cluster, and return the picture with complete clusters."""
    parents = picture.parents()
    lines: dict[int, dict[Way, dict[int, None]]] = {each.number: {} for each in picture.clusters}
    for edge in picture.edges:
        sources, targets = [*way_up(edge.source, parents)], [*way_up(edge.target, parents)]
        while sources[-1][0] == targets[-1][0]:
            sources.pop()
            targets.pop()
        value, status = edge.source, edge.status
        common = sources[-1][1]
        ends = ("child", sources[-1][0], "child", targets[-1][0], status)
        lines[common.number].setdefault(ends, {})[value] = None
        for child, cluster in sources[:-1]:
            lines[cluster.number].setdefault(("child", child, "out", value, status), {})[value] = None
        for child, cluster in targets[:-1]:
            lines[cluster.number].setdefault(("in", value, "child", child, status), {})[value] = None
    for cluster in picture.clusters:
        _lay_out_cluster(cluster, lines[cluster.number])
    return picture


def way_up(node: int, parents: dict[int, Cluster]) -> Iterator[tuple[int, Cluster]]:
    """Yield a node and the clusters around it, each with its own surrounding cluster."""
    child = node
    while child in parents:
        yield child, parents[child]
        child = parents[child].number


def _lay_out_cluster(cluster: Cluster, lines: dict[Way, dict[int, None]]) -> None:
    cluster.ports_in = sorted({value for sort, value, _, _, _ in lines if sort == "in"})
    cluster.ports_out = sorted({value for _, _, sort, value, _ in lines if sort == "out"})
    numbers: dict[tuple[str, int], int] = {}
    for sort, members in (("child", cluster.children), ("in", cluster.ports_in), ("out", cluster.ports_out)):
        for member in members:
            numbers[sort, member] = len(numbers)
    plain = {
        (numbers[source_sort, source], numbers[target_sort, target], status): tuple(values)
        for (source_sort, source, target_sort, target, status), values in sorted(lines.items())
    }
    cluster.layers = layers_of(len(cluster.children), len(cluster.ports_in), len(cluster.ports_out), plain)
