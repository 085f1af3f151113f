"""Costs of graphs as text: the headline of a mismatch, and the table of a golden."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_fxgraph.compare.cost import BETTER
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.report.change_text import describe_change
from pytest_fxgraph.report.printable import aligned

_NOT_RECORDED = {
    "added": "no costs recorded: update",
    "removed": "the obtained graph has no costs; record them at level cost",
}
_HEAD = ("module", "FLOPs", "read", "written", "FLOPs/byte", "params", "nodes")


def cost_headline(leading: Sequence[Change]) -> str:
    """Return the difference in costs in one line. Costs below the budget are better, and need a decision too."""
    if leading[0].field == "recorded":
        return _NOT_RECORDED[leading[0].action]
    texts = [change.remark.partition(",")[0] for change in leading]
    told = [
        f"{change.where} {text}" if text else describe_change(change)
        for change, text in zip(leading, texts, strict=True)
    ]
    joined = ", ".join(told)
    return f"better: {joined}; accept" if all(change.field == BETTER for change in leading) else joined


def cost_lines(block: CostBlock) -> list[str]:
    """Write costs as a table with a line per module, and the facts of the whole graph below."""
    rows = [_HEAD, *(_row(path or "(root)", record) for path, record in block.modules), _row("total", block.total)]
    lines = aligned(rows)
    lines.append(
        f"peak activation memory: {block.peak_activation:,} bytes, in {block.peak_at or 'the outermost module'}"
    )
    if block.uncounted:
        lines.append(f"operators without a count of FLOPs: {', '.join(block.uncounted)}")
    return lines


def _row(name: str, record: CostRecord) -> tuple[str, ...]:
    intensity = record.flops / record.bytes if record.bytes else 0.0
    counts = (f"{count:,}" for count in (record.flops, record.read, record.written))
    return (name, *counts, f"{intensity:.2f}", f"{record.params:,}", str(record.nodes))
