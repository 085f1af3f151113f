"""Updates of state at the end of a training step that came, went, or take another value."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.graph_index import GraphIndex

_SCOPE = "update."  # of the nodes that write the state of a step


def changed_updates(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find state that a step no longer updates, updates since now, or updates by another value."""
    for index, lone, words in (
        (graph.expected, graph.removed, "is no longer updated"),
        (graph.obtained, graph.added, "is updated now"),
    ):
        for position, change in list(lone.items()):
            path = _updated(index, position)
            if path:
                places = ([position], []) if index is graph.expected else ([], [position])
                yield Occurrence(
                    "update", f"{path} {words}", ("update", change.action), graph.site("", *places), [change]
                )
    for position, partner, changes in list(graph.pair_changes()):
        path = _updated(graph.expected, position)
        rewired = [change for change in changes if change.kind == "wiring"]
        if not path or path != _updated(graph.obtained, partner) or not rewired:
            continue
        value, other = (index.nodes[index.inputs[at][-1]].name
                        for index, at in ((graph.expected, position), (graph.obtained, partner)))  # fmt: skip
        text = f"{path} is updated by %{other} in place of %{value}"
        yield Occurrence("update", text, ("update", "value"), graph.site("", [position], [partner]), rewired)


def _updated(index: GraphIndex, position: int) -> str:
    """Return the path of the state that a node writes at the end of a step; "" for any other node."""
    node, inputs = index.nodes[position], index.inputs[position]
    if not (node.scope or "").startswith(_SCOPE) or node.target != "aten.copy_.default" or not inputs:
        return ""
    written = index.nodes[inputs[0]]
    return written.target if written.op == "get_attr" else ""
