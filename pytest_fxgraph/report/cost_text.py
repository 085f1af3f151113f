"""Costs of graphs as text: the headline of a mismatch, and the tables of `fxgraph cost`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_fxgraph.compare.cost import BETTER
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.change_text import describe_change

_NOT_RECORDED = {
    "added": "no costs recorded: update",
    "removed": "the obtained graph has no costs; record them at level cost",
}


def cost_headline(leading: Sequence[Change]) -> tuple[str, int]:
    """Return what differs in costs, and how many changes that covers; less cost than the budget allows is better."""
    first = leading[0]
    if first.field == "recorded":
        return _NOT_RECORDED[first.action], 1
    texts = [describe_change(_brief(change)) for change in leading]
    if all(change.field == BETTER for change in leading):
        return f"better: {', '.join(texts)}; accept", len(leading)
    return ", ".join(texts), len(leading)


def _brief(change: Change) -> Change:
    return replace(change, field="", remark=change.remark.partition(";")[0])
