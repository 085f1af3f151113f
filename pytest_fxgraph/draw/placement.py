"""The places of all boxes and lines of a picture, given its open clusters.

`placement.js` does the same in the browser, where clusters open and close. Tests compare both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_fxgraph.draw.layers import Link
from pytest_fxgraph.draw.picture import Cluster, DrawnNode, Picture

CHARACTER, LINE = 7.25, 15  # of the font, in pixels
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


@dataclass
class _Inside:
    """An open cluster by itself: its children relative to its corner, and the places where values pass its borders."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[Line]
    ports_in: dict[int, float]
    ports_out: dict[int, float]


def placement_of(picture: Picture, opened: Collection[int]) -> Placement:
    """Place everything visible. The clusters in `opened` show their children."""
    inside = _inside(picture, picture.root, opened, 0)
    return Placement(inside.width, inside.height, inside.boxes, inside.lines)


def clipped_label(text: str) -> str:
    """Return a label, cut to the width of a box."""
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def node_size(node: DrawnNode) -> tuple[float, float]:
    """Return width and height of a node's box."""
    lines = [clipped_label(text) for text in (node.label, node.place) if text]
    return round(max(map(len, lines), default=0) * CHARACTER + 18), LINE * len(lines) + 9


def cluster_lines(cluster: Cluster) -> tuple[str, str]:
    """Return the two lines of a closed cluster."""
    counts = [f"{sign}{cluster.changes[status]}" for status, sign in SIGNS.items() if cluster.changes.get(status)]
    return clipped_label(cluster.label), " ".join([f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''}", *counts])


SIGNS = {"added": "+", "removed": "−", "changed": "~"}  # noqa: RUF001 - a minus sign


def _closed_size(cluster: Cluster) -> tuple[float, float]:
    return round(max(map(len, cluster_lines(cluster))) * CHARACTER + 30), 2 * LINE + 11


def _inside(picture: Picture, cluster: Cluster, opened: Collection[int], depth: int) -> _Inside:
    insides: dict[int, _Inside] = {}
    sizes: list[tuple[float, float]] = []
    for child in cluster.children:
        inner = picture.cluster(child)
        if inner is None:
            sizes.append(node_size(picture.nodes[child]))
        elif inner.number in opened:
            insides[child] = _inside(picture, inner, opened, depth + 1)
            sizes.append((insides[child].width, insides[child].height))
        else:
            sizes.append(_closed_size(inner))
    rows = cluster.layers.rows
    count = max((item for row in rows for item in row), default=-1) + 1
    sizes += [(6.0, 0.0)] * (count - len(sizes))
    xs = _across(cluster, sizes)
    header = HEADER if depth else 0
    tops, bottoms, y = [0.0] * count, [0.0] * count, float(MARGIN + header)
    ports = range(len(cluster.children), len(cluster.children) + len(cluster.ports_in) + len(cluster.ports_out))
    last = y
    for row in rows:
        height = max((sizes[item][1] for item in row), default=0)
        for item in row:
            is_bend = item >= len(cluster.children)
            tops[item] = y if is_bend else y + (height - sizes[item][1]) / 2
            bottoms[item] = tops[item] + (height if is_bend else sizes[item][1])
        last = y + height
        y = last + (_DOWN if height else _DOWN / 2)
    left = min((xs[item] - sizes[item][0] / 2 for item in range(count)), default=0)
    right = max((xs[item] + sizes[item][0] / 2 for item in range(count)), default=0)
    title = len(cluster.label[:LONGEST_LABEL]) * CHARACTER + 30 if depth else 0
    spare = max(0, title - (right - left) - 2 * MARGIN)
    shift = MARGIN - left + spare / 2
    xs = [x + shift for x in xs]
    placed = _Inside(right - left + 2 * MARGIN + spare, last + MARGIN, [], [], {}, {})
    for port, value in zip(ports, [*cluster.ports_in, *cluster.ports_out], strict=True):
        (placed.ports_in if port < ports.start + len(cluster.ports_in) else placed.ports_out)[value] = xs[port]
    _place_children(placed, cluster, insides, sizes, xs, tops, depth)
    for link in cluster.layers.links:
        placed.lines += _lines_of(link, cluster, insides, xs, tops, bottoms, placed.height)
    return placed


def _place_children(
    placed: _Inside,
    cluster: Cluster,
    insides: dict[int, _Inside],
    sizes: Sequence[tuple[float, float]],
    xs: Sequence[float],
    tops: Sequence[float],
    depth: int,
) -> None:
    for item, child in enumerate(cluster.children):
        (width, height), inside = sizes[item], insides.get(child)
        x, y = xs[item] - width / 2, tops[item]
        placed.boxes.append(Box(child, x, y, width, height, inside is not None, depth))
        if inside is not None:
            for box in inside.boxes:
                box.x, box.y = box.x + x, box.y + y
            for line in inside.lines:
                line.points = [(px + x, py + y) for px, py in line.points]
            placed.boxes += inside.boxes
            placed.lines += inside.lines


def _lines_of(
    link: Link,
    cluster: Cluster,
    insides: dict[int, _Inside],
    xs: Sequence[float],
    tops: Sequence[float],
    bottoms: Sequence[float],
    height: float,
) -> Iterator[Line]:
    """Yield one line for a bundle of values, or a line per value where an open cluster has a port per value."""
    children = cluster.children
    by_ends: dict[tuple[float, float], list[int]] = {}
    for value in link.values:
        start = _port(link.source, value, children, insides, xs, is_out=True)
        end = _port(link.target, value, children, insides, xs, is_out=False)
        by_ends.setdefault((start, end), []).append(value)
    leads_up = tops[link.source] > tops[link.target]
    starts, ends = (tops, bottoms) if leads_up else (bottoms, tops)
    for (start, end), values in by_ends.items():
        points = [(start, starts[link.source] if link.source < len(children) else 0.0)]
        for bend in link.bends[::-1] if leads_up else link.bends:
            points += [(xs[bend], y) for y in sorted((tops[bend], bottoms[bend]), reverse=leads_up)]
        points.append((end, ends[link.target] if link.target < len(children) else height))
        source, target = (children[item] if item < len(children) else -1 for item in (link.source, link.target))
        yield Line(points, source, target, tuple(values), cluster.number, link.status)


def _port(
    item: int, value: int, children: Sequence[int], insides: dict[int, _Inside], xs: Sequence[float], *, is_out: bool
) -> float:
    inside = insides.get(children[item]) if item < len(children) else None
    if inside is None:
        return xs[item]
    ports = inside.ports_out if is_out else inside.ports_in
    return xs[item] - inside.width / 2 + ports[value] if value in ports else xs[item]


def _across(cluster: Cluster, sizes: Sequence[tuple[float, float]]) -> list[float]:
    """Return the middle of each item: near its neighbours in the next rows, in the order of the row."""
    rows, children = cluster.layers.rows, len(cluster.children)
    xs = [0.0] * len(sizes)
    for row in rows:
        x = -sum(sizes[item][0] + _ACROSS for item in row) / 2
        for item in row:
            xs[item] = x + sizes[item][0] / 2
            x += sizes[item][0] + _ACROSS
    above, below = _neighbours(cluster, len(sizes))
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


def _neighbours(cluster: Cluster, count: int) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    ranks = {item: rank for rank, row in enumerate(cluster.layers.rows) for item in row}
    for link in cluster.layers.links:
        ends = sorted((link.source, link.target), key=ranks.__getitem__)
        way = (ends[0], *link.bends, ends[1])
        for upper, lower in pairwise(way):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


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
