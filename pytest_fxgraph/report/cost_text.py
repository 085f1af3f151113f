"""Costs of graphs as text: the headline of a mismatch, and the tables of `fxgraph cost`."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_fxgraph.compare.cost import BETTER
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.report.change_text import describe_change

_NOT_RECORDED = {
    "added": "no costs recorded: update",
    "removed": "the obtained graph has no costs; record them at level cost",
}


def cost_headline(leading: Sequence[Change]) -> str:
    """Return what differs in costs in one line; less than the budget allows is better, and still to be accepted."""
    if leading[0].field == "recorded":
        return _NOT_RECORDED[leading[0].action]
    text = ", ".join(f"{change.where} {change.remark.partition(',')[0] or describe_change(change)}" for change in leading)
    return f"better: {text}; accept" if all(change.field == BETTER for change in leading) else text
