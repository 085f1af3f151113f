from __future__ import annotations

from pytest_fxgraph.grouping import grouped, without


def test_items_with_one_key_stand_together_in_their_order():
    assert grouped(["bb", "a", "cc", "d"], len) == {2: ["bb", "cc"], 1: ["a", "d"]}
    assert list(grouped(["bb", "a"], len)) == [2, 1]


def test_items_that_the_others_have_fewer_times_are_returned():
    assert without(["a", "B", "a", "c"], ["A", "b"], str.lower) == ["a", "c"]
    assert without([], ["a"], str) == []
