"""Inputs and outputs of a graph that came, went or changed."""

from __future__ import annotations

from collections.abc import Iterator, Set

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.arguments import with_described_nodes
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import full_name, without_numbers
from pytest_fxgraph.document.literals import references
from pytest_fxgraph.document.spelling import split_at

_MOST_NAMED = 3


def changed_interface(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find inputs that were added, removed, renamed, moved or changed, and outputs that changed."""
    returned = [change for change in graph.changes if change.subject == "output" and change.field.startswith("args")]
    for change in [change for change in graph.changes if change.subject in ("input", "output")]:
        text = _input_text(graph, change) if change.subject == "input" else output_text(graph, change)
        key = (change.subject, change.action, change.field, without_numbers(text))
        changes = [change]
        if change.subject == "output" and returned:
            if change.field == "value":
                continue
            # Other results have other values.
            changes += [other for other in graph.changes if other.subject == "output" and other.field == "value"]
        yield Occurrence(change.subject, text, key, graph.site(""), changes)


def _input_text(graph: ComparedGraph, change: Change) -> str:
    name = change.where[len(graph.prefix) :]
    if change.action == "moved":
        return f"input {name} moved: {change.expected} -> {change.obtained}"
    if change.action in ("added", "removed"):
        return f"input {name} {change.action}"
    if change.field == "target":
        return f"input {change.expected} renamed to {change.obtained}"
    field = "" if change.field == "value" else f" {change.field}"
    return f"input {name}:{field} {change.expected or 'nothing'} -> {change.obtained or 'nothing'}"


def output_text(graph: ComparedGraph, change: Change) -> str:
    """Put a change of the output in words."""
    texts = [_with_full_names(graph, text) for text in (change.expected, change.obtained)]
    returned, others = ([*references(text)] for text in (change.expected, change.obtained))
    if change.field.startswith("args") and len(returned) != len(others):
        less, more = sorted((returned, others), key=len)
        if set(less) < set(more) and len(more) - len(less) <= _MOST_NAMED:
            text = change.obtained if more is others else change.expected
            names = [_with_full_names(graph, item) for item in _items_with(text, set(more) - set(less))]
            words = "also returns" if more is others else "no longer returns"
            return f"the graph {words} {', '.join(names)}"
        return f"the graph returns {len(others)} value{'s' if len(others) != 1 else ''} in place of {len(returned)}"
    if texts[0] == texts[1]:
        texts = [change.expected, change.obtained]
    verb = "output:" if change.field == "value" else "the graph returns"
    return f"{verb} {texts[0] or 'nothing'} -> {texts[1] or 'nothing'}"


def _with_full_names(graph: ComparedGraph, text: str) -> str:
    return with_described_nodes(graph, text, "", full_name)


def _items_with(text: str, names: Set[str]) -> list[str]:
    """Return the items of a tuple, list or dict that name a node."""
    items = split_at(text[1:-1], ",") if text[0] in "([{" else [text]
    return [item.strip() for item in items if not names.isdisjoint(references(item))]
