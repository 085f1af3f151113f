"""Level `ops`: how many of which operator."""

from __future__ import annotations

from collections import Counter

from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.document.model import GraphDocument

_KINDS = ("call_function", "call_method", "call_module")


def ops_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare how many nodes call which operator; modules count by class, and graphs in them by their nodes."""
    counts, obtained_counts = operator_counts(expected), operator_counts(obtained)
    changes = []
    for key in sorted(counts.keys() | obtained_counts.keys()):
        before, after = counts[key], obtained_counts[key]
        if before != after:
            op, operator = key
            name = f"{operator} (method)" if op == "call_method" else operator
            about = Change("operators", "changed", "count", name, "count", str(before), str(after), operator=operator)
            changes.append(about)
    return Difference("ops", tuple(changes))


def operator_counts(document: GraphDocument) -> Counter[tuple[str, str]]:
    """Count operators by kind of call and name."""
    modules = {module.path: module.kind for module in document.modules}
    counts = Counter(
        (node.op, modules.get(node.target, node.target) if node.op == "call_module" else node.target)
        for node in document.nodes
        if node.op in _KINDS
    )
    for module in document.modules:
        if module.graph is not None:
            counts += operator_counts(module.graph)
    return counts
