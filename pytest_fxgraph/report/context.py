"""The nodes around a change, as lines."""

from __future__ import annotations

from collections.abc import Collection, Set

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document import text_writer
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.report.change_text import clipped

_NODES_AROUND = 3


def node_line(node: NodeRecord) -> str:
    """Return a node as one line."""
    return clipped(text_writer.node_line(node, node.name, text_writer.Texts(), ""))


def surroundings(
    change: Change, expected: GraphDocument, obtained: GraphDocument, beside: Collection[Change] = ()
) -> list[str]:
    """Return the nodes around a change as lines: `-` marks expected, `+` obtained nodes, `>` the changed node.

    Nodes that were added or removed together with the changed node are marked too, if `beside` lists their changes.
    """
    alike = {other.where for other in beside if other.action == change.action and other.subject == "node"}
    before, after = _node_of(change, expected, before=True), _node_of(change, obtained, before=False)
    if change.action == "removed":
        return [] if before is None else _window(expected, before, "-", alike)
    if after is None:
        return []
    if change.action == "added":
        return _window(obtained, after, "+", alike)
    if before is None or node_line(expected.nodes[before]) == node_line(obtained.nodes[after]):
        return _window(obtained, after, ">")
    return _window(obtained, after, "+", instead_of=expected.nodes[before])


def _node_of(change: Change, document: GraphDocument, *, before: bool) -> int | None:
    """Find the node of a change, or the node that uses the changed module or state."""
    name = change.where
    if change.subject in ("module", "state"):
        name = change.node
    elif before and change.expected_node:
        name = change.expected_node
    for position, node in enumerate(document.nodes):
        if (node.target if change.subject == "input" else node.name) == name:
            return position
    return None


def _window(
    document: GraphDocument, middle: int, mark: str, alike: Set[str] = frozenset(), instead_of: NodeRecord | None = None
) -> list[str]:
    lines = []
    for place in range(max(0, middle - _NODES_AROUND), min(len(document.nodes), middle + _NODES_AROUND + 1)):
        node = document.nodes[place]
        is_marked = place == middle or node.name in alike
        if place == middle and instead_of is not None:
            lines.append(f"- {node_line(instead_of)}")
        lines.append(f"{mark if is_marked else ' '} {node_line(node)}")
    return lines
