"""A picture as a mermaid flowchart, as GitHub and GitLab show it in comments and pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from pytest_fxgraph.draw.picture import DrawnNode, Picture, Seen
from pytest_fxgraph.draw.placement import cluster_lines
from pytest_fxgraph.report.printable import printable_line

# Above these limits, GitHub draws nothing.
MOST_CHARACTERS, MOST_EDGES = 50_000, 500
_STYLES = {
    "added": "fill:#dafbe1,stroke:#1a7f37,color:#1f2328",
    "removed": "fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-dasharray:5 3",
    "changed": "fill:#fff1c2,stroke:#9a6700,color:#1f2328",
}
_ARROWS = {"added": "==>", "removed": "-.->"}


def mermaid_text(picture: Picture, opened: Collection[int]) -> str:
    """Return the picture in mermaid's language. A cluster outside `opened` becomes one node."""
    lines = ["flowchart TB", *(_box_line(seen) for seen in picture.walk(opened))]
    for source, target, status, value in picture.labelled_edges(opened):
        label = f"|{_quoted(value)}|" if value else ""
        lines.append(f"  n{source} {_ARROWS.get(status, '-->')}{label} n{target}")
    used = sorted({node.status for node in picture.nodes} & _STYLES.keys())
    lines += [f"  classDef {status} {_STYLES[status]}" for status in used]
    return "\n".join([*lines, ""])


def mermaid_for_github(picture: Picture, sizes: Iterable[int]) -> str | None:
    """Return the flowchart of the first size, in boxes, that GitHub draws; None if it draws none of them."""
    return next(filter(fits_on_github, (mermaid_text(picture, picture.opened(most)) for most in sizes)), None)


def fits_on_github(text: str) -> bool:
    """Return whether GitHub draws a flowchart of this size."""
    edges = sum(arrow in line for line in text.split("\n") for arrow in ("-->", "==>", "-.->"))
    return len(text) <= MOST_CHARACTERS and edges <= MOST_EDGES


def _box_line(seen: Seen) -> str:
    indent, box = "  " * (seen.depth + 1), seen.box
    if isinstance(box, DrawnNode):
        label = _quoted("\n".join(filter(None, (box.label, box.place, box.change))))
        opening, closing = ("([", "])") if box.sort in ("input", "output") else ("[", "]")
        style = f":::{box.status}" if box.status in _STYLES else ""
        return f"{indent}n{seen.child}{opening}{label}{closing}{style}"
    if seen.state:
        return f"{indent}subgraph n{seen.child} [{_quoted(box.label)}]" if seen.state == "open" else f"{indent}end"
    label = _quoted("\n".join(cluster_lines(box)))
    return f"{indent}n{seen.child}[[{label}]]{':::changed' if box.changes else ''}"


def _quoted(text: str) -> str:
    """Return a text as a label. Characters with a meaning in mermaid, Markdown or HTML become entities."""
    lines = (re.sub(r"[^\w .,:()/+=×→−…-]", _entity, printable_line(line)) for line in text.split("\n"))  # noqa: RUF001
    return '"' + "<br>".join(lines) + '"'


def _entity(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
