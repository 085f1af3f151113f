"""A picture as text for graphviz."""

from __future__ import annotations

from collections.abc import Collection

from pytest_fxgraph.draw.picture import DrawnNode, Picture, Seen
from pytest_fxgraph.draw.placement import cluster_lines
from pytest_fxgraph.report.printable import printable_line

_COLOURS = {"added": "#1a7f37", "removed": "#cf222e", "changed": "#9a6700", "followed": "#9a6700"}
_FILLS = {"added": "#dafbe1", "removed": "#ffebe9", "changed": "#fff1c2"}
_FILLS_BY_SORT = {"input": "#ddf4ff", "output": "#ddf4ff", "state": "#fff8c5", "module": "#eef0ff"}


def dot_text(picture: Picture, opened: Collection[int]) -> str:
    """Return the picture in graphviz's language. A cluster outside `opened` becomes one node."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        '  graph [fontname="monospace", fontsize=11, style="rounded,dashed", color="#8c959f"];',
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=9, color="#8c959f"];',
        *(_box_line(seen) for seen in picture.walk(opened)),
    ]
    for source, target, status, value in picture.labelled_edges(opened):
        style = {"added": ", style=bold", "removed": ", style=dashed"}.get(status, "")
        colour = f', color="{_COLOURS[status]}"{style}' if status else ""
        lines.append(f"  n{source} -> n{target} [label={_quoted(value)}{colour}];")
    return "\n".join([*lines, "}", ""])


def _box_line(seen: Seen) -> str:
    indent, box = "  " * (seen.depth + 1), seen.box
    if isinstance(box, DrawnNode):
        label = "\n".join(filter(None, (box.label, box.place)))
        fill = _FILLS.get(box.status) or _FILLS_BY_SORT.get(box.sort, "#f6f8fa")
        border = f', color="{_COLOURS[box.status]}", penwidth=2' if box.status else ""
        return f'{indent}n{seen.child} [label={_quoted(label)}, fillcolor="{fill}"{border}];'
    if seen.state:
        head = f"{indent}subgraph cluster_{seen.child} {{\n{indent}  label={_quoted(box.label)};"
        return head if seen.state == "open" else f"{indent}}}"
    shape = "box3d" if box.sort == "repeated" else "folder"
    border = f', color="{_COLOURS["changed"]}", penwidth=2' if box.changes else ""
    label = "\n".join(cluster_lines(box))
    return f'{indent}n{seen.child} [label={_quoted(label)}, shape={shape}, style="filled"{border}];'


def _quoted(text: str) -> str:
    """Return a text as graphviz reads it back. The only escape is `\\n`, the end of a line."""
    lines = [printable_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
