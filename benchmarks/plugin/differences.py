"""Explaining one insertion in a large golden, against a bare DeepDiff of the same documents."""

from __future__ import annotations

import operator
import time
from collections import Counter
from typing import Any

import fxcore
from pytest_fxgraph import diff_graphs

_PATIENCE = 2_000  # nodes; a bare DeepDiff of more takes minutes, and grows linearly here


def _module(nodes: int, *, inserted: bool) -> Any:
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    if inserted:
        value = graph.call_function(operator.neg, (value,))
    for index in range(nodes):
        value = graph.call_function(operator.add, (value, index % 7))
    graph.output(value)
    return fxcore.GraphModule({}, graph)


def _documents(module: Any) -> list[dict[str, Any]]:
    return [
        {"name": node.name, "op": node.op, "target": str(node.target), "args": [str(arg) for arg in node.args]}
        for node in module.graph.nodes
    ]


def explained(nodes: int) -> tuple[str, float]:
    """Return our words for one insertion at the front of a graph, and the CPU seconds that they took."""
    expected, obtained = _module(nodes, inserted=False), _module(nodes, inserted=True)
    start = time.process_time()
    difference = diff_graphs(expected, obtained)
    taken = time.process_time() - start
    actions = Counter([change.action for change in difference.changes])
    words = ", ".join([f"{actions.get(action, 0)} {action}" for action in ("added", "removed", "changed")])
    return f"{words}, {difference.renamed} renamed", taken


def with_deepdiff(nodes: int) -> tuple[str, float]:
    """Return how many changes a bare DeepDiff counts, and the CPU seconds that it took."""
    from deepdiff import DeepDiff

    counted = min(nodes, _PATIENCE)
    expected, obtained = (_documents(_module(counted, inserted=inserted)) for inserted in (False, True))
    start = time.process_time()
    found = DeepDiff(expected, obtained)
    taken = time.process_time() - start
    changes = ", ".join([f"{len(items)} {kind}" for kind, items in found.items()])
    scale = "" if counted == nodes else f" (of {counted:,} nodes)"
    return changes + scale, taken * nodes / counted
