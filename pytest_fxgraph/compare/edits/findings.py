"""Graph breaks, recompiles and guards of a capture that came, went or moved, and other notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.document.capture_notes import NOUNS

# A reason, the function, and the statement: "number out of a tensor (item) in forward: y = x.item()".
_BREAK = re.compile(r"(?P<reason>.*?) in (?P<function>[^:`]*): (?P<code>.*)", re.DOTALL)


def changed_findings(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find what a capture told otherwise; a finding with one reason in two functions has moved."""
    gone = {id(change): change for change in graph.changes if _is_finding(change) and change.action == "removed"}
    for change in graph.changes:
        if _is_finding(change) and change.action == "added":
            before = next((each for each in gone.values() if _is_same(each, change)), None)
            if before is None:
                yield _finding(graph, change, "added")
            else:
                del gone[id(before)]
                yield _moved(graph, before, change)
    for change in gone.values():
        yield _finding(graph, change, "gone")
    for change in graph.changes:
        if change.subject == "note":
            text = f"{change.expected or 'nothing'} -> {change.obtained or 'nothing'}"
            yield Occurrence("note", text, ("note", text), graph.site(""), [change])


def _is_finding(change: Change) -> bool:
    return change.subject in NOUNS and change.action in ("added", "removed")


def _finding(graph: ComparedGraph, change: Change, word: str) -> Occurrence:
    text = f"{NOUNS[change.subject]} {word}: {change.where[len(graph.prefix) :]}"
    site = graph.site("")._replace(where=change.source or "")
    return Occurrence(change.subject, text, (change.subject, word, change.operator), site, [change])


def _is_same(before: Change, after: Change) -> bool:
    parts = _BREAK.fullmatch(before.operator), _BREAK.fullmatch(after.operator)
    if before.subject != after.subject or parts[0] is None or parts[1] is None:
        return False
    return (parts[0]["reason"], parts[0]["code"]) == (parts[1]["reason"], parts[1]["code"])


def _moved(graph: ComparedGraph, before: Change, after: Change) -> Occurrence:
    parts = _BREAK.fullmatch(after.operator)
    reason = parts["reason"] if parts is not None else after.operator
    functions = [found["function"] for change in (before, after) if (found := _BREAK.fullmatch(change.operator))]
    text = f"{NOUNS[after.subject]} moved from {' to '.join(functions)}: {reason}"
    site = graph.site("")._replace(where=after.source or "")
    return Occurrence(after.subject, text, (after.subject, "moved", reason), site, [before, after])
