"""One size or one dtype that changed wherever it occurs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence

_TOKEN = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+|[A-Za-z_]\w*|\W")
_DTYPE = re.compile(r"(?:bfloat|float|complex|u?int)\d+\w*|bool|torch")
_BATCH = re.compile(r"\w+\[(\d+)")
_MOST_NAMED = 3


def changes_throughout(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find a batch, a dtype or sizes that changed wherever anything changed, or in all values."""
    changed = [
        change for change in graph.changes if change.action == "changed" and change.field not in ("target", "content")
    ]
    values = [change for change in changed if change.field == "value"]
    for changes in (graph.changes, changed, values):
        found = _steps(changes)
        text = found and (_dtype_text(found, changes) or _batch_text(found, changes))
        if found and not text and changes is not values:
            text = _sizes_text(found, changes)
        if found and text:
            where = " everywhere" if len(changes) == len(graph.changes) else ""
            key = ("throughout", text if _is_dtype(found) else text.partition(" ")[0])
            yield Occurrence("throughout", text + where, key, graph.site(""), changes)
            return


# Pairs of an old and a new token.
_Steps = dict[str, str]


def _steps(changes: Sequence[Change]) -> _Steps | None:
    """Map the tokens that differ to the new ones; None if texts differ otherwise, or if one token becomes two."""
    found: _Steps = {}
    for change in changes:
        tokens, others = _TOKEN.findall(change.expected), _TOKEN.findall(change.obtained)
        if change.action != "changed" or not tokens or len(tokens) != len(others):
            return None
        for token, other in zip(tokens, others, strict=True):
            if token != other and found.setdefault(token, other) != other:
                return None
    return found


def _is_dtype(steps: _Steps) -> bool:
    return len(steps) == 1 and all(_DTYPE.fullmatch(text) for pair in steps.items() for text in pair)


def _dtype_text(steps: _Steps, changes: Sequence[Change]) -> str:
    return " -> ".join(next(iter(steps.items()))) if _is_dtype(steps) and len(changes) > 1 else ""


def _batch_text(steps: _Steps, changes: Sequence[Change]) -> str:
    """Tell the first size of the inputs, if no other size changed by another factor."""
    first = {
        (before[1], after[1])
        for change in changes
        if change.subject == "input"
        and (before := _BATCH.match(change.expected))
        and (after := _BATCH.match(change.obtained))
    }
    if len(first) != 1 or not _have_one_factor(steps):
        return ""
    batch, other = first.pop()
    return f"batch {batch} -> {other}" if steps.get(batch) == other else ""


def _sizes_text(steps: _Steps, changes: Sequence[Change]) -> str:
    """Tell sizes that grew by one factor in several modules, as the width of a model does."""
    fields = {change.field for change in changes if change.field.startswith("config.")}
    paths = {(change.subject, change.where) for change in changes if change.subject != "node"}
    if not _have_one_factor(steps) or len(paths) < 2 or len(fields) == 1:
        return ""
    pairs = sorted((int(before), int(after)) for before, after in steps.items())
    named = ", ".join(f"{before} -> {after}" for before, after in pairs[:_MOST_NAMED])
    return f"size{'s' if len(pairs) > 1 else ''} {named}{', ...' if len(pairs) > _MOST_NAMED else ''}"


def _have_one_factor(steps: _Steps) -> bool:
    if not all(text.isdecimal() and int(text) for pair in steps.items() for text in pair):
        return False
    return len({Fraction(int(after), int(before)) for before, after in steps.items()}) == 1
