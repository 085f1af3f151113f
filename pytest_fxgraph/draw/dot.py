"""A picture as text for graphviz."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_fxgraph.draw.picture import Cluster, Picture
from pytest_fxgraph.draw.placement import cluster_lines
from pytest_fxgraph.report.printable import printable_line

_COLOURS = {"added": "#1a7f37", "removed": "#cf222e", "changed": "#9a6700", "followed": "#9a6700"}
_FILLS = {"added": "#dafbe1", "removed": "#ffebe9", "changed": "#fff1c2"}
_FILLS_BY_SORT = {"input": "#ddf4ff", "output": "#ddf4ff", "state": "#fff8c5", "module": "#eef0ff"}


def dot_text(picture: Picture, opened: Collection[int]) -> str:
    """Return the picture in graphviz's language, clusters that are not in `opened` as one node."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        '  graph [fontname="monospace", fontsize=11, style="rounded,dashed", color="#8c959f"];',
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=9, color="#8c959f"];',
        *_members(picture, picture.root, opened, "  "),
    ]
    for (source, target, status), values in sorted(picture.visible_edges(opened).items()):
        value = picture.nodes[min(values)].value if len(values) == 1 else ""
        style = {"added": ", style=bold", "removed": ", style=dashed"}.get(status, "")
        colour = f', color="{_COLOURS[status]}"{style}' if status else ""
        lines.append(f"  n{source} -> n{target} [label={_quoted(value)}{colour}];")
    return "\n".join([*lines, "}", ""])


def _members(picture: Picture, cluster: Cluster, opened: Collection[int], indent: str) -> Iterator[str]:
    for child in cluster.children:
        inner = picture.cluster(child)
        if inner is None:
            node = picture.nodes[child]
            label = "\n".join(filter(None, (node.label, node.place)))
            fill = _FILLS.get(node.status) or _FILLS_BY_SORT.get(node.sort, "#f6f8fa")
            border = f', color="{_COLOURS[node.status]}", penwidth=2' if node.status else ""
            yield f'{indent}n{child} [label={_quoted(label)}, fillcolor="{fill}"{border}];'
        elif child in opened:
            yield f"{indent}subgraph cluster_{child} {{"
            yield f"{indent}  label={_quoted(inner.label)};"
            yield from _members(picture, inner, opened, indent + "  ")
            yield f"{indent}}}"
        else:
            shape = "box3d" if inner.sort == "repeated" else "folder"
            border = f', color="{_COLOURS["changed"]}", penwidth=2' if inner.changes else ""
            label = "\n".join(cluster_lines(inner))
            yield f'{indent}n{child} [label={_quoted(label)}, shape={shape}, style="filled"{border}];'


def _quoted(text: str) -> str:
    """Return a text as graphviz reads it back; `\\n` is the only escape in it, which ends a line."""
    lines = [printable_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
