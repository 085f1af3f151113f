from __future__ import annotations

import re

from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.draw.panels import cost_panel, errors_panel, failure_panels, strip_panel, way_panel
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

HOSTILE = '"></td><script>alert(1)</script><img src=x onerror=alert(2)>'


def rows_of(table: str) -> list[str]:
    return [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in re.findall("<tr.*?</tr>", table, re.DOTALL)][1:]


def histogram_html(histogram: ErrorHistogram) -> str:
    return errors_panel([TensorError("output", "differs", (), histogram)])


def block(*modules: tuple[str, CostRecord]) -> CostBlock:
    total = CostRecord(*(sum(getattr(record, name) for _, record in modules) for name in CostRecord.__annotations__))
    return CostBlock(total, 64, "fc", modules, ("aten.sort",))


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


def test_errors_are_counted_by_power_of_ten_those_beyond_the_tolerance_apart():
    table = histogram_html(ErrorHistogram(-4, (7, 2, 0), (0, 1, 3000), exact=5, not_finite=2))

    assert rows_of(table) == [
        "no error 5",
        "1e-04 to 1e-03 7",
        "1e-03 to 1e-02 3 (1 beyond)",
        "1e-02 to 1e-01 3,000",
        "NaN or infinite in one alone 2",
    ]
    assert [re.findall(r'<i class="(\w+)', row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]] == [
        ["within"],
        ["within"],
        ["within", "beyond"],
        ["beyond"],
        ["beyond"],
    ]


def test_a_single_element_among_millions_is_seen():
    widths = re.findall(r"(?:within|beyond) w(\d+)", histogram_html(ErrorHistogram(0, (0, 5_000_000), (1, 0), exact=0)))

    assert float(widths[0]) > 3
    assert float(widths[1]) == 100


def test_each_step_says_what_it_is_without_its_colour():
    steps = [
        PathStep("agrees", "linear", "fc", "net", "model.py:3", "1", "1", 0.0),
        PathStep("only graph", "bfloat16", "half", obtained="2"),
        PathStep("first", "relu", "relu", "net", "model.py:4", "1", "2", 1e-3),
        PathStep("differs", "add", "add", "net", "model.py:5", "1", "2", float("inf")),
        PathStep("left out", "12 more operators"),
        PathStep("differs", "view", "view", expected="1", obtained="2"),
    ]

    assert rows_of(way_panel(steps)) == [
        "= agrees linear fc in net, model.py:3 0 1",
        "+ ran in the graph alone bfloat16 half ran in the graph alone 2",
        "\N{NOT EQUAL TO} differs first here relu relu differs first here in net, model.py:4 0.001 1 2",
        "\N{NOT EQUAL TO} differs add add in net, model.py:5 inf 1 2",
        "12 more operators",
        "\N{NOT EQUAL TO} differs view view not measured 1 2",
    ]


def test_a_failure_without_numbers_has_no_empty_panels():
    failure = NumericFailure("test", "the graph raised", "words", (TensorError("the graph", "raised"),))

    assert [name for name, _ in failure_panels(failure)] == ["Errors"]
    assert [*failure_panels(NumericFailure("test", "stale", "words"))] == []


def test_nothing_in_a_failure_that_comes_from_a_model_is_markup():
    step = PathStep("first", *[HOSTILE] * 6, 1.0)

    page = way_panel([step, PathStep("left out", HOSTILE)]) + errors_panel([TensorError(HOSTILE, HOSTILE, (HOSTILE,))])

    assert "<script" not in page
    assert "<img" not in page


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


def test_nothing_in_a_strip_that_comes_from_a_graph_is_markup():
    node = StripNode(HOSTILE, HOSTILE, "added", (), HOSTILE, HOSTILE)

    assert "<script" not in strip(StripStage(HOSTILE, (node,)), StripStage(HOSTILE, (node,), (0,)))


def test_a_single_error_has_a_bar_of_full_width():
    assert 'within w100"' in histogram_html(ErrorHistogram(0, (1,), (0,), exact=0))
    assert rows_of(histogram_html(ErrorHistogram(0, (0,), (0,), exact=0))) == ["1e+00 to 1e+01 0"]


def test_bars_of_errors_on_the_way_have_lengths_by_the_logarithm():
    steps = [PathStep("differs", "relu", "relu", error=error) for error in (1e-4, 1e-2, 1.0, float("inf"), 0.0)]

    assert re.findall(r'<i class="beyond w(\d+)', way_panel(steps)) == ["8", "54", "100", "100"]


def test_four_kept_nodes_in_a_row_are_folded():
    assert "<summary>4 kept</summary>" in strip(StripStage("mine", kept(4)))
    assert "<summary>" not in strip(StripStage("mine", kept(3)))
    assert "<summary>" not in strip(StripStage("mine", (StripNode("n", "aten.relu", "added"),) * 9))
