from __future__ import annotations

import re

from pytest_fxgraph.draw.failure_panels import errors_panel, failure_panels, histogram_html, way_panel
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>"


def rows_of(table: str) -> list[str]:
    return [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr.*?</tr>", table)]


def test_errors_are_counted_by_power_of_ten_those_beyond_the_tolerance_apart():
    table = histogram_html(ErrorHistogram(-4, (7, 2, 0), (0, 1, 3000), exact=5, not_finite=2))

    told = [" ".join(row.split()) for row in rows_of(table)]
    assert told[1:] == [
        "no error 5",
        "1e-04 to 1e-03 7",
        "1e-03 to 1e-02 3 (1 beyond)",
        "1e-02 to 1e-01 3,000",
        "NaN or infinite in one alone 2",
    ]
    assert [re.findall('<i class="(.*?)"', row) for row in re.findall(r"<tr.*?</tr>", table)[1:]] == [
        ["within"],
        ["within"],
        ["within", "beyond"],
        ["beyond"],
        ["beyond"],
    ]


def test_a_single_element_among_millions_is_seen():
    widths = re.findall(r"width:([\d.]+)%", histogram_html(ErrorHistogram(0, (0, 5_000_000), (1, 0), exact=0)))

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

    told = [" ".join(row.split()) for row in rows_of(way_panel(steps))[1:]]

    assert told == [
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


def test_nothing_that_comes_from_a_model_is_markup():
    step = PathStep("first", *[HOSTILE] * 6, 1.0)

    page = way_panel([step, PathStep("left out", HOSTILE)]) + errors_panel([TensorError(HOSTILE, HOSTILE, (HOSTILE,))])

    assert "<script" not in page
    assert "<img" not in page
