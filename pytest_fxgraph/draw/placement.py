"""The places of all boxes and lines of a picture, given its open clusters.

`placement.js` does the same in the browser, where clusters open and close. Tests compare both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_fxgraph.draw.layers import Link, neighbours_of
from pytest_fxgraph.draw.picture import Cluster, DrawnNode, Picture
from pytest_fxgraph.report.printable import counted

CHARACTER, LINE = 7.25, 15  # of the font, in pixels
_VALUE_CHARACTER = 5.75  # of the smaller font of shapes
MARGIN, HEADER = 12, 20  # in a cluster: at all sides, and for its title
LONGEST_LABEL = 38
_ACROSS, _DOWN = 18, 34  # between boxes
_SWEEPS = 6
_BEND_WEIGHT, _BOX_WEIGHT = 3.0, 1.0  # straight long lines matter more than centred boxes

Point = tuple[float, float]


@dataclass
class Box:
    """A node or cluster with its place in the picture."""

    child: int
    x: float
    y: float
    width: float
    height: float
    is_open: bool = False
    depth: int = 0


@dataclass
class Line:
    """A line of the picture: its points in pairs, with a bend between two pairs."""

    points: list[Point]
    source: int  # the child of `cluster` where the line begins; -1 for a port
    target: int
    values: tuple[int, ...]
    cluster: int
    status: str = ""


@dataclass
class Placement:
    """All boxes, the outer boxes first, and all lines."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[Line]


def placement_of(picture: Picture, opened: Collection[int]) -> Placement:
    """Place everything visible. The clusters in `opened` show their children."""
    inside = _Inside(picture, picture.root, opened, 0)
    return Placement(inside.width, inside.height, [*inside.boxes()], [*inside.lines()])


def clipped_label(text: str) -> str:
    """Return a label, cut to the width of a box."""
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def node_size(node: DrawnNode) -> tuple[float, float]:
    """Return width and height of a node's box, which is as wide as the shape below it."""
    lines = node_lines(node)
    width = max(map(len, lines)) * CHARACTER + 18
    return round(max(width, _width_of_value(node))), LINE * len(lines) + 9


def node_lines(node: DrawnNode) -> list[str]:
    """Return the lines in the box of a node: its operation, place and changed field."""
    return [clipped_label(node.label), *(clipped_label(text) for text in (node.place, node.change) if text)]


def cluster_lines(cluster: Cluster) -> tuple[str, str]:
    """Return the two lines of a closed cluster."""
    counts = [f"{sign}{cluster.changes[status]}" for status, sign in SIGNS.items() if cluster.changes.get(status)]
    return clipped_label(cluster.label), " ".join([counted(cluster.nodes, "node"), *counts])


SIGNS = {"added": "+", "removed": "−", "changed": "~"}  # noqa: RUF001 - a minus sign


def closed_size(picture: Picture, cluster: Cluster) -> tuple[float, float]:
    """Return width and height of a closed cluster's box, which is as wide as any shape below it."""
    width = max(map(len, cluster_lines(cluster))) * CHARACTER + 30
    return round(max([width, *(_width_of_value(picture.nodes[each]) for each in cluster.ports_out)])), 2 * LINE + 11


def _width_of_value(node: DrawnNode) -> float:
    return len(clipped_label(node.value)) * _VALUE_CHARACTER


class _Inside:
    """An open cluster by itself: its items relative to its corner, and the places where values pass its borders."""

    def __init__(self, picture: Picture, cluster: Cluster, opened: Collection[int], depth: int) -> None:
        self._picture, self._cluster, self._depth = picture, cluster, depth
        self._insides = {
            item: _Inside(picture, inner, opened, depth + 1)
            for item, child in enumerate(cluster.children)
            if child in opened and (inner := picture.cluster(child)) is not None
        }
        rows = cluster.layers.rows
        items = range(sum(map(len, rows)))
        self._sizes = [self._size(item) for item in items]
        self._tops, self._bottoms = [0.0 for _ in items], [0.0 for _ in items]
        last = y = float(MARGIN + (HEADER if depth else 0))
        for row in rows:
            height = max((self._sizes[item][1] for item in row), default=0)
            for item in row:
                own = height if item >= len(cluster.children) else self._sizes[item][1]  # a bend takes the whole row
                self._tops[item] = y + (height - own) / 2
                self._bottoms[item] = self._tops[item] + own
            last = y + height
            y = last + (_DOWN if height else _DOWN / 2)
        xs = _across(cluster, self._sizes)
        left = min((xs[item] - self._sizes[item][0] / 2 for item in items), default=0)
        right = max((xs[item] + self._sizes[item][0] / 2 for item in items), default=0)
        title = len(cluster.label[:LONGEST_LABEL]) * CHARACTER + 30 if depth else 0
        spare = max(0, title - (right - left) - 2 * MARGIN)
        self._xs = [x + MARGIN - left + spare / 2 for x in xs]
        self.width, self.height = right - left + 2 * MARGIN + spare, last + MARGIN
        # By value, the place where it passes the upper or the lower border.
        ports = self._xs[len(cluster.children) :]
        self.ports_in = dict(zip(cluster.ports_in, ports, strict=False))
        self.ports_out = dict(zip(cluster.ports_out, ports[len(cluster.ports_in) :], strict=False))

    def _size(self, item: int) -> tuple[float, float]:
        if item >= len(self._cluster.children):
            return 6.0, 0.0
        child, inside = self._cluster.children[item], self._insides.get(item)
        if inside is not None:
            return inside.width, inside.height
        inner = self._picture.cluster(child)
        return node_size(self._picture.nodes[child]) if inner is None else closed_size(self._picture, inner)

    def boxes(self, left: float = 0.0, top: float = 0.0) -> Iterator[Box]:
        """Yield all boxes, for a corner of the cluster at this place."""
        for item, child in enumerate(self._cluster.children):
            (width, height), inside = self._sizes[item], self._insides.get(item)
            x, y = left + self._xs[item] - width / 2, top + self._tops[item]
            yield Box(child, x, y, width, height, inside is not None, self._depth)
            if inside is not None:
                yield from inside.boxes(x, y)

    def lines(self, left: float = 0.0, top: float = 0.0) -> Iterator[Line]:
        """Yield all lines, for a corner of the cluster at this place."""
        for item, inside in self._insides.items():
            yield from inside.lines(left + self._xs[item] - inside.width / 2, top + self._tops[item])
        for link in self._cluster.layers.links:
            for line in self._lines_of(link):
                line.points = [(x + left, y + top) for x, y in line.points]
                yield line

    def _lines_of(self, link: Link) -> Iterator[Line]:
        """Yield one line for a bundle of values, or a line per value where an open cluster has a port per value."""
        children, xs = self._cluster.children, self._xs
        by_ends: dict[tuple[float, float], list[int]] = {}
        for value in link.values:
            ends = self._port(link.source, value, is_out=True), self._port(link.target, value, is_out=False)
            by_ends.setdefault(ends, []).append(value)
        leads_up = self._tops[link.source] > self._tops[link.target]
        starts, ends_at = (self._tops, self._bottoms) if leads_up else (self._bottoms, self._tops)
        for (start, end), values in by_ends.items():
            points = [(start, starts[link.source] if link.source < len(children) else 0.0)]
            for bend in link.bends[::-1] if leads_up else link.bends:
                sides = self._tops[bend], self._bottoms[bend]
                points += [(xs[bend], y) for y in sorted(sides, reverse=leads_up)]
            points.append((end, ends_at[link.target] if link.target < len(children) else self.height))
            source, target = (children[item] if item < len(children) else -1 for item in (link.source, link.target))
            yield Line(points, source, target, tuple(values), self._cluster.number, link.status)

    def _port(self, item: int, value: int, *, is_out: bool) -> float:
        inside = self._insides.get(item)
        if inside is None:
            return self._xs[item]
        ports = inside.ports_out if is_out else inside.ports_in
        return self._xs[item] - inside.width / 2 + ports[value] if value in ports else self._xs[item]


def _across(cluster: Cluster, sizes: Sequence[tuple[float, float]]) -> list[float]:
    """Return the middle of each item: near its neighbours in the next rows, in the order of the row."""
    rows, children = cluster.layers.rows, len(cluster.children)
    xs = [0.0] * len(sizes)
    for row in rows:
        x = -sum(sizes[item][0] + _ACROSS for item in row) / 2
        for item in row:
            xs[item] = x + sizes[item][0] / 2
            x += sizes[item][0] + _ACROSS
    above, below = neighbours_of(rows, cluster.layers.links)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for row in rows if down else reversed(rows):
            wanted = [
                sum(xs[other] for other in beside) / len(beside) if (beside := neighbours[item]) else xs[item]
                for item in row
            ]
            weights = [_BEND_WEIGHT if item >= children else _BOX_WEIGHT for item in row]
            weights = [weight if neighbours[item] else weight / 4 for weight, item in zip(weights, row, strict=True)]
            for item, x in zip(row, _apart(wanted, weights, [sizes[item][0] for item in row]), strict=True):
                xs[item] = x
    return xs


def _apart(wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted places at which the items of a row, in this order, do not touch."""
    offsets, offset = [], 0.0
    for index, width in enumerate(widths):
        offset += (widths[index - 1] + width) / 2 + _ACROSS if index else 0
        offsets.append(offset)
    # Blocks of touching items. A block stands at the average of its items' wanted places.
    blocks: list[tuple[float, float, int]] = []  # place, weight, number of items
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        middle, heavy, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > middle:
            before, other, more = blocks.pop()
            middle = (before * other + middle * heavy) / (other + heavy)
            heavy, count = heavy + other, count + more
        blocks.append((middle, heavy, count))
    places = [place for place, _, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]
