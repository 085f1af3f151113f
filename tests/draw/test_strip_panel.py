from __future__ import annotations

import re

from pytest_fxgraph.draw.strip_panel import strip_panel
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

HOSTILE = '"><script>alert(1)</script>'


def strip(*stages: StripStage) -> str:
    return strip_panel(StageStrip("test", stages, ""))


def kept(count: int) -> tuple[StripNode, ...]:
    return tuple(StripNode(f"n{place}", "aten.relu", "kept", (place,)) for place in range(count))


def test_a_stage_counts_and_marks_what_it_did():
    page = strip(
        StripStage("export", (StripNode("fc", "aten.linear", "traced"), StripNode("old", "aten.copy", "traced"))),
        StripStage(
            "mine", (StripNode("mm", "aten.mm", "rewritten", (0,)), StripNode("c", "aten.clone", "added")), (1,)
        ),
    )

    words = " ".join(re.sub("<[^>]+>", " ", page).split())
    assert "export 2 nodes aten.linear fc , traced aten.copy old , traced" in words
    assert "mine 2 nodes +1 added \N{MINUS SIGN}1 removed ~1 rewritten" in words
    assert "+ &nbsp; aten.clone c , added" in words
    assert "\N{MINUS SIGN} &nbsp; aten.copy old , removed" in words


def test_a_node_names_those_it_was_made_from():
    page = strip(
        StripStage("export", (StripNode("fc", "aten.linear", "traced"),)),
        StripStage("mine", (StripNode("mm", "aten.mm", "rewritten", (0,)),)),
    )

    assert re.findall('data-node="(.*?)" data-from="(.*?)"', page) == [("0.0", ""), ("1.0", "0.0")]


def test_many_kept_nodes_in_a_row_are_folded():
    first = StripStage("export", kept(9))

    assert "<summary>9 kept</summary>" in strip(first, StripStage("mine", kept(9)))
    assert "<summary>" not in strip(StripStage("export", kept(2)), StripStage("mine", kept(2)))


def test_a_column_is_bounded():
    page = strip(StripStage("export", kept(5_000)))

    assert page.count("data-node") == 2_000
    assert "and 3000 more nodes" in page


def test_nothing_that_comes_from_a_graph_is_markup():
    node = StripNode(HOSTILE, HOSTILE, "added", (), HOSTILE, HOSTILE)

    assert "<script" not in strip(StripStage(HOSTILE, (node,)), StripStage(HOSTILE, (node,), (0,)))
