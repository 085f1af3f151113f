"""A picture as lines of text, for terminals: nodes below their modules, folded as in the other pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_fxgraph.draw.picture import DrawnNode, Picture
from pytest_fxgraph.draw.placement import cluster_lines
from pytest_fxgraph.report.change_text import clipped

_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_NOT_TOLD = ("name", "in module", "source")  # facts of a changed node that are no difference
_LONGEST_TEXT = 60


def outline_lines(picture: Picture, opened: Collection[int]) -> Iterator[str]:
    """Yield a line for each visible box; `+`, `-` and `~` mark added, removed and changed nodes."""
    reads: dict[int, list[int]] = {}
    for edge in picture.edges:
        reads.setdefault(edge.target, []).append(edge.source)
    for seen in picture.walk(opened):
        indent, box = "  " * seen.depth, seen.box
        if isinstance(box, DrawnNode):
            yield from _node_lines(picture, box, reads.get(seen.child, []), indent)
        elif seen.state == "open":
            yield f"  {indent}{box.label}"
        elif not seen.state:
            first, second = cluster_lines(box)
            yield f"  {indent}... {first} ({second})"


def _node_lines(picture: Picture, node: DrawnNode, reads: list[int], indent: str) -> Iterator[str]:
    mark = _MARKS.get(node.status, " ")
    inputs = ", ".join(f"%{picture.nodes[each].name}" for each in reads)
    parts = [f"{mark} {indent}%{node.name}", node.label, *([node.place] if node.place else [])]
    value = f"  # {node.value}" if node.value else ""
    yield clipped(f"{'  '.join(parts)}{f'  <- {inputs}' if inputs else ''}{value}")
    if node.status != "changed":
        return
    for fact in node.facts:
        if fact.expected != fact.obtained and fact.what not in _NOT_TOLD:
            texts = [clipped(text, _LONGEST_TEXT) or "nothing" for text in (fact.expected, fact.obtained)]
            yield f"~ {indent}    {fact.what}: {texts[0]} -> {texts[1]}"
