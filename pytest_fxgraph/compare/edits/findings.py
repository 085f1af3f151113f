"""Graph breaks, recompiles and guards of a capture that came, went or moved, and other notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.document.capture_notes import NOUNS, finding_in_words
from pytest_fxgraph.grouping import grouped

# A reason, the function, and the statement: "number out of a tensor (item) in forward: y = x.item()".
_BREAK = re.compile(r"(?P<reason>.*?) in (?P<function>[^:`]*): (?P<code>.*)", re.DOTALL)
# The number of a block in a path: `layers.3.`, `layers[3]`, `layers_3_`.
_BLOCK = re.compile(r"(?<=\w[.\[_])\d+(?=[.\]_])")


def changed_findings(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find what a capture told otherwise; a finding with one reason in two functions has moved."""
    repeated = Counter(_key(each) for each in graph.changes if each.subject == "guard")
    gone = grouped([each for each in graph.changes if _is_finding(each) and each.action == "removed"], _content)
    for change in graph.changes:
        if _is_finding(change) and change.action == "added":
            alike = gone.get(_content(change))
            yield _moved(graph, alike.pop(0), change) if alike else _finding(graph, change, repeated)
    for change in [change for changes in gone.values() for change in changes]:
        yield _finding(graph, change, repeated)
    for change in graph.changes:
        if change.subject == "note":
            text = f"{change.expected or 'nothing'} -> {change.obtained or 'nothing'}"
            yield Occurrence("note", text, ("note", text), graph.site(""), [change])


def _is_finding(change: Change) -> bool:
    return change.subject in NOUNS and change.action in ("added", "removed")


def _key(change: Change) -> tuple[str, str, str]:
    """Return the key of a finding. Equal guards of repeated blocks are one edit."""
    operator = _BLOCK.sub("*", change.operator) if change.subject == "guard" else change.operator
    return change.subject, "more" if change.action == "added" else "fewer", operator


def _finding(graph: ComparedGraph, change: Change, repeated: Mapping[tuple[str, str, str], int]) -> Occurrence:
    text = finding_in_words(change.subject, change.remark, is_added=change.action == "added")
    site = graph.site("")._replace(where=change.source or "")
    where, key = change.where[len(graph.prefix) :], _key(change)
    where = _BLOCK.sub("*", where) if repeated[key] > 1 else where
    return Occurrence(change.subject, f"{text}: {where}", key, site, [change])


def _content(change: Change) -> tuple[str, ...]:
    """Return a finding without the function that it is in."""
    parts = _BREAK.fullmatch(change.operator)
    return (change.subject, change.operator) if parts is None else (change.subject, parts["reason"], parts["code"])


def _moved(graph: ComparedGraph, before: Change, after: Change) -> Occurrence:
    parts = _BREAK.fullmatch(after.operator)
    reason = parts["reason"] if parts is not None else after.operator
    functions = [found["function"] for change in (before, after) if (found := _BREAK.fullmatch(change.operator))]
    text = f"{NOUNS[after.subject]} moved from {' to '.join(functions)}: {reason}"
    site = graph.site("")._replace(where=after.source or "")
    return Occurrence(after.subject, text, (after.subject, "moved", reason), site, [before, after])
