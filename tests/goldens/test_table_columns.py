"""Rules of a table's columns, and the words for rows that differ."""

from __future__ import annotations

import pytest

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.goldens.table_columns import check_rules, differences, row_differences, rule_of
from pytest_fxgraph.goldens.table_rows import Row


def test_a_rule_is_read_or_refused_with_its_words():
    assert rule_of("time", {"time": "5%"}, {"time": "higher"}).better == "higher"
    with pytest.raises(ChoiceError, match=r"^better=\{'time': 'less'\} is neither 'lower' nor 'higher'$"):
        rule_of("time", {}, {"time": "less"})
    with pytest.raises(ChoiceError, match=r"^tolerance=\{'time': 'much'\}: expected a number such as 2"):
        rule_of("time", {"time": "much"}, {})


def test_a_row_of_another_test_is_told():
    before, after = Row("net", "test_a.py::test_net", {"flops": 2}), Row("net", "test_b.py::test_net", {"flops": 2})

    assert [*row_differences({"net": before}, {"net": before})] == []
    assert [*row_differences({"net": before}, {"net": after})] == [
        "~ net: belongs to test_b.py::test_net in place of test_a.py::test_net"
    ]


@pytest.mark.parametrize(
    ("tolerance", "expected", "obtained", "is_accepted"),
    [
        ({}, 3, 3, True),
        ({}, 3, 4, False),
        ({"time": 2}, 3, 5, True),
        ({"time": 2}, 5, 3, True),
        ({"time": 2}, 3, 5.5, False),
        ({"time": "10%"}, 100, 110, True),
        ({"time": "10%"}, 100, 111, False),
        ({"time": "10%"}, -100, -110, True),
        ({"time": "2"}, 3, 5, True),
    ],
)
def test_a_number_may_differ_by_a_number_or_by_a_part(tolerance, expected, obtained, is_accepted):
    assert rule_of("time", tolerance, {}).accepts(expected, obtained) is is_accepted


@pytest.mark.parametrize("given", [-1, "-5%", float("inf"), float("nan"), None, "%"])
def test_a_tolerance_is_no_negative_or_infinite_number(given):
    with pytest.raises(ChoiceError, match="expected a number such as 2, or a part such as '5%'"):
        rule_of("time", {"time": given}, {})


@pytest.mark.parametrize(
    ("column", "better"), [("nodes", "lower"), ("flops", "lower"), ("uncounted", "lower"), ("time", None)]
)
def test_fewer_counts_and_lower_costs_are_better(column, better):
    assert rule_of(column, {}, {}).better == better
    assert rule_of(column, {}, {column: "higher"}).better == "higher"


@pytest.mark.parametrize("options", [({"time": 1}, {}), ({}, {"time": "lower"})])
def test_a_rule_of_an_unknown_column_is_refused(options):
    with pytest.raises(ChoiceError, match="there is no column 'time'; there are flops, nodes"):
        check_rules({"nodes": 1, "flops": 2}, *options)
    with pytest.raises(ChoiceError, match="neither 'lower' nor 'higher'"):
        check_rules({"time": 1}, {}, {"time": "less"})


@pytest.mark.parametrize(
    ("expected", "obtained", "better", "words"),
    [
        ({"nodes": 3}, {"nodes": 3}, {}, []),
        ({"nodes": 3}, {"nodes": 2}, {}, ["nodes 3 -> 2 (one node fewer), which is better: accept it"]),
        ({"nodes": 3}, {"nodes": 5}, {}, ["nodes 3 -> 5 (2 nodes more), which is worse"]),
        ({"skipped": 0}, {"skipped": 1}, {}, ["skipped 0 -> 1 (one function left to Python more), which is worse"]),
        ({"skipped": 0}, {"skipped": 2}, {}, ["skipped 0 -> 2 (2 functions left to Python more), which is worse"]),
        ({"flops": 100}, {"flops": 150}, {}, ["flops 100 -> 150 (+50.00%), which is worse"]),
        ({"flops": 0}, {"flops": 150}, {}, ["flops 0 -> 150, which is worse"]),
        ({"time": 1.5}, {"time": 2.5}, {}, ["time 1.5 -> 2.5"]),
        ({"time": 1.5}, {"time": 2.5}, {"time": "higher"}, ["time 1.5 -> 2.5, which is better: accept it"]),
        ({"time": 2.5}, {"time": 1.5}, {"time": "higher"}, ["time 2.5 -> 1.5, which is worse"]),
        ({"nodes": 3, "time": 1}, {"nodes": 3}, {}, ["time was 1, and was not measured"]),
        ({"nodes": 3}, {"nodes": 3, "time": 1}, {}, ["time is 1, and the row does not have it"]),
        ({"nodes": 3, "quantized": 2}, {"nodes": 3}, {}, ["quantized 2 -> 0"]),
        ({"nodes": 3}, {"nodes": 3, "quantized": 2}, {}, ["quantized 0 -> 2"]),
    ],
)
def test_each_column_that_differs_has_its_words(expected, obtained, better, words):
    assert [*differences(expected, obtained, {}, better)] == words


def test_rows_that_came_and_went_are_told_with_their_numbers():
    rows = {"net": Row("net", "net", {"nodes": 3, "time": 1.5})}

    assert [*row_differences({}, rows)] == ["+ net: nodes 3, time 1.5"]
    assert [*row_differences(rows, {})] == ["- net: nodes 3, time 1.5"]


def test_every_row_that_came_went_or_changed_is_told_in_order():
    before = {name: Row(name, name, {"flops": 1}) for name in "bcd"}
    after = {name: Row(name, name, {"flops": 2 if name == "d" else 1}) for name in "acd"}

    assert [line.partition(" (")[0] for line in row_differences(before, after)] == [
        "+ a: flops 1",
        "- b: flops 1",
        "~ d: flops 1 -> 2",
    ]
