"""Costs in words: the headline, and the table."""

from __future__ import annotations

import pytest

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.report.cost_text import cost_headline, cost_lines

WORSE = Change("cost", "changed", "cost", "flops", "", "100", "110", remark="+10.00%, the budget is 1%")
BETTER = Change("cost", "changed", "cost", "bytes", "better", "100", "90", remark="-10.00%, the budget is 1%")
UNCOUNTED = Change("cost", "changed", "cost", "operators without a count of FLOPs", "", "none", "lib.f")


@pytest.mark.parametrize(
    ("leading", "headline"),
    [
        ([WORSE], "flops +10.00%"),
        ([WORSE, BETTER], "flops +10.00%, bytes -10.00%"),
        ([BETTER], "better: bytes -10.00%; accept"),
        ([UNCOUNTED], "operators without a count of FLOPs: none -> lib.f"),
        ([Change("cost", "added", "cost", "costs", "recorded")], "no costs recorded: update"),
        (
            [Change("cost", "removed", "cost", "costs", "recorded")],
            "the obtained graph has no costs; record them at level cost",
        ),
    ],
)
def test_a_headline_says_what_got_worse_or_only_better(leading, headline):
    assert cost_headline(leading) == headline


def test_a_table_has_a_line_for_each_module_and_one_for_all():
    block = CostBlock(CostRecord(3000, 100, 50, 7, 2), 4096, "fc", (("fc", CostRecord(3000, 100, 50, 7, 2)),))

    assert cost_lines(block) == [
        "module  FLOPs  read  written  FLOPs/byte  params  nodes",
        "fc      3,000   100       50       20.00       7      2",
        "total   3,000   100       50       20.00       7      2",
        "peak activation memory: 4,096 bytes, in fc",
    ]
