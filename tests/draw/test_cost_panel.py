from __future__ import annotations

import re

from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.draw.cost_panel import cost_panel


def block(*modules: tuple[str, CostRecord]) -> CostBlock:
    total = CostRecord(*(sum(getattr(record, name) for _, record in modules) for name in CostRecord.__annotations__))
    return CostBlock(total, 64, "fc", modules, ("aten.sort",))


def rows_of(panel: str) -> list[str]:
    return [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in re.findall("<tr.*?</tr>", panel)][1:]


def test_modules_are_listed_with_their_share_the_largest_first():
    panel = cost_panel(None, block(("small", CostRecord(100, 8, 8, 2, 1)), ("large", CostRecord(300, 16, 8, 4, 2))))

    assert rows_of(panel) == [
        "the whole graph 400 40 6 3 100.0%",
        "large 300 24 4 2 75.0%",
        "small 100 16 2 1 25.0%",
    ]
    assert "Operators without a count of FLOPs: aten.sort." in panel


def test_of_two_graphs_what_changed_most_stands_first_with_its_change():
    same, before, after = CostRecord(900, 8, 8, 2, 1), CostRecord(100, 8, 8, 2, 1), CostRecord(150, 8, 8, 2, 1)

    panel = cost_panel(block(("same", same), ("fc", before)), block(("same", same), ("fc", after)))

    assert rows_of(panel) == [
        "the whole graph 1,050 +5.00% 32 4 2 100.0%",
        "fc 150 +50.00% 16 2 1 14.3%",
        "same 900 16 2 1 85.7%",
    ]


def test_a_module_that_is_gone_is_told_and_its_name_is_no_markup():
    panel = cost_panel(block(("<img>", CostRecord(100, 8, 8, 2, 1))), block(("fc", CostRecord(50, 8, 8, 2, 1))))

    assert "&lt;img&gt; 0 -100.00%" in " ".join(re.sub("<[^>]+>", " ", panel).split())


def test_costs_recorded_for_one_of_two_graphs_are_told_as_they_are():
    one = block(("fc", CostRecord(50, 8, 8, 2, 1)))

    assert rows_of(cost_panel(one, None)) == rows_of(cost_panel(None, one))
    assert cost_panel(None, None) == ""
