"""Rules of a table's columns, and the words for rows that differ."""

from __future__ import annotations

import pytest

from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.goldens.table_columns import row_differences, rule_of
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
