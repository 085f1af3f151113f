"""A picture as a mermaid flowchart, as GitHub and GitLab show it in comments and pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pytest_fxgraph.draw.picture import Cluster, Picture
from pytest_fxgraph.draw.placement import cluster_lines
from pytest_fxgraph.report.printable import printable_line

# What GitHub refuses to draw: more characters, or more edges.
MOST_CHARACTERS, MOST_EDGES = 50_000, 500
_STYLES = {
    "added": "fill:#dafbe1,stroke:#1a7f37,color:#1f2328",
    "removed": "fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-dasharray:5 3",
    "changed": "fill:#fff1c2,stroke:#9a6700,color:#1f2328",
}
_ARROWS = {"added": "==>", "removed": "-.->"}


def mermaid_text(picture: Picture, opened: Collection[int]) -> str:
    """Return the picture in mermaid's language, clusters that are not in `opened` as one node."""
    lines = ["flowchart TB", *_members(picture, picture.root, opened, "  ")]
    for (source, target, status), values in sorted(picture.visible_edges(opened).items()):
        value = picture.nodes[min(values)].value if len(values) == 1 else ""
        label = f"|{_quoted(value)}|" if value else ""
        lines.append(f"  n{source} {_ARROWS.get(status, '-->')}{label} n{target}")
    used = sorted({node.status for node in picture.nodes} & _STYLES.keys())
    lines += [f"  classDef {status} {_STYLES[status]}" for status in used]
    return "\n".join([*lines, ""])


def fits_on_github(text: str) -> bool:
    """Tell whether GitHub draws a flowchart, as far as its size goes."""
    return (
        len(text) <= MOST_CHARACTERS
        and sum(arrow in line for line in text.split("\n") for arrow in ("-->", "==>", "-.->")) <= MOST_EDGES
    )


def _members(picture: Picture, cluster: Cluster, opened: Collection[int], indent: str) -> Iterator[str]:
    for child in cluster.children:
        inner = picture.cluster(child)
        if inner is None:
            node = picture.nodes[child]
            label = _quoted("\n".join(filter(None, (node.label, node.place))))
            opening, closing = ("([", "])") if node.sort in ("input", "output") else ("[", "]")
            style = f":::{node.status}" if node.status in _STYLES else ""
            yield f"{indent}n{child}{opening}{label}{closing}{style}"
        elif child in opened:
            yield f"{indent}subgraph n{child} [{_quoted(inner.label)}]"
            yield from _members(picture, inner, opened, indent + "  ")
            yield f"{indent}end"
        else:
            style = ":::changed" if inner.changes else ""
            label = _quoted("\n".join(cluster_lines(inner)))
            yield f"{indent}n{child}[[{label}]]{style}"


def _quoted(text: str) -> str:
    """Return a text as a label: what mermaid, Markdown or HTML would take for more than a character is an entity."""
    lines = (re.sub(r"[^\w .,:()/+=×→−…-]", _entity, printable_line(line)) for line in text.split("\n"))  # noqa: RUF001
    return '"' + "<br>".join(lines) + '"'


def _entity(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
