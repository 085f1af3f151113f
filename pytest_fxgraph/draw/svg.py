"""A picture as one SVG file without references to other files, for dark and light backgrounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape
from pathlib import Path

from pytest_fxgraph.draw import placement
from pytest_fxgraph.draw.picture import Cluster, DrawnNode, Picture
from pytest_fxgraph.draw.placement import Box, Placement
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.printable import printable_line

STYLE = Path(__file__).with_name("picture.css")


def svg_text(picture: Picture, opened: Collection[int]) -> str:
    """Return the SVG of a picture. The clusters in `opened` show their children."""
    return "".join(f"{line}\n" for line in _lines(picture, placement.placement_of(picture, opened)))


def _lines(picture: Picture, placed: Placement) -> Iterator[str]:
    width, height = number_text(placed.width), number_text(placed.height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fx" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    yield f"<title>{quoted(picture.title)}</title>"
    yield f"<style>{STYLE.read_text(encoding='utf-8').strip()}</style>"
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    boxes = [(box, picture.cluster(box.child)) for box in placed.boxes]
    opened = [(box, cluster) for box, cluster in boxes if cluster is not None and box.is_open]
    for box, module in opened:
        yield _group(f"cluster {module.sort}", module.path or module.label, _rectangle(box, 8))
    for line in placed.lines:
        yield f'<path class="edge {line.status}" d="{path_text(line.points)}"/>'
    yield from _values(picture, placed)
    # Above the lines that cross it.
    yield from (_text(box.x + 9, box.y + 15, placement.clipped_label(module.label), "opened") for box, module in opened)
    for box, cluster in boxes:
        if cluster is None:
            yield _node(box, picture.nodes[box.child])
        elif not box.is_open:
            yield _closed_cluster(box, cluster)
    yield "</svg>"


def _closed_cluster(box: Box, cluster: Cluster) -> str:
    behind = _rectangle(box, 6, shift=5) if cluster.sort == "repeated" else ""
    first, second = placement.cluster_lines(cluster)
    lines = _line(box, 0, first, "label"), _line(box, 1, second, "place")
    status = next(iter(cluster.changes), "")
    return _group(f"folded {cluster.sort} {status}", cluster.label, behind, _rectangle(box, 6), *lines)


def _node(box: Box, node: DrawnNode) -> str:
    radius = {"input": 14, "output": 14, "state": 2}.get(node.sort, 5)
    first, *further = placement.node_lines(node)
    lines = [_line(box, 0, first, "label"), *(_line(box, row, text, "place") for row, text in enumerate(further, 1))]
    title = "\n".join([node.name, *(f"{fact.what}: {clipped(fact.obtained or fact.expected)}" for fact in node.facts)])
    return _group(f"node {node.sort} {node.status}", title, _rectangle(box, radius), *lines, _sign(box, node))


def _sign(box: Box, node: DrawnNode) -> str:
    """Return the sign of an added, removed or changed node, for readers without its colour."""
    sign = placement.SIGNS.get(node.status)
    if sign is None:
        return ""
    circle = f'<circle class="sign" cx="{number_text(box.x)}" cy="{number_text(box.y + 1)}" r="7"/>'
    return circle + _text(box.x, box.y + 5, sign, "sign")


def _group(kind: str, title: str, *inner: str) -> str:
    return f'<g class="{kind}">{"".join(inner)}<title>{quoted(title)}</title></g>'


def _line(box: Box, row: int, text: str, kind: str) -> str:
    return _text(box.x + box.width / 2, box.y + 16 + row * placement.LINE, text, kind)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f'class="{kind}" ' if kind else ""
    return f'<text {named}x="{number_text(x)}" y="{number_text(y)}">{quoted(text)}</text>'


def _values(picture: Picture, placed: Placement) -> Iterator[str]:
    """Yield the shape below each box, unless values of several shapes leave the box."""
    opened = {box.child for box in placed.boxes if box.is_open}
    shapes: dict[int, dict[str, placement.Point]] = {}
    for line in placed.lines:
        if line.source >= 0 and line.source not in opened and line.points[1][1] > line.points[0][1]:
            for value in line.values:
                shapes.setdefault(line.source, {}).setdefault(picture.nodes[value].value, line.points[0])
    for source, found in shapes.items():
        cluster = picture.cluster(source)
        shadow = 6 if cluster is not None and cluster.sort == "repeated" else 0
        for shape, (x, y) in found.items() if len(found) == 1 and "" not in found else ():
            yield _text(x, y + 11 + shadow, placement.clipped_label(shape), "value")


def path_text(points: list[placement.Point]) -> str:
    """Return the path of a line. The line is vertical at each of its points."""
    x, y = points[0]
    parts = [f"M{number_text(x)} {number_text(y)}"]
    for next_x, next_y in points[1:]:
        if x == next_x:
            parts.append(f"L{number_text(next_x)} {number_text(next_y)}")
        else:
            middle = number_text((y + next_y) / 2)
            parts.append(
                f"C{number_text(x)} {middle} {number_text(next_x)} {middle} {number_text(next_x)} {number_text(next_y)}"
            )
        x, y = next_x, next_y
    return "".join(parts)


def quoted(text: str) -> str:
    """Return a text in one line as the content of an element or attribute."""
    return escape(printable_line(text))


def _rectangle(box: Box, radius: int, shift: int = 0) -> str:
    x, y, width, height = map(number_text, (box.x + shift, box.y + shift, box.width, box.height))
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'


def number_text(number: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    return f"{round(number, 1):g}" if abs(number) < 100_000 else str(round(number))
