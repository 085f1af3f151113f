from __future__ import annotations

from fxcore.passes.dependency_order import in_dependency_order

FOLLOWERS = {"a": "cd", "b": "d", "c": "e", "d": "e", "e": ""}


def order(**options):
    needs = {item: sum(each.count(item) for each in FOLLOWERS.values()) for item in FOLLOWERS}
    return "".join(in_dependency_order(needs, FOLLOWERS.__getitem__, **options))


def test_each_item_comes_behind_the_items_that_it_needs():
    assert order() == "abcde"
    assert order(rank=lambda item, time: -time) == "badce"


def test_an_item_may_come_as_early_as_it_can():
    assert order(rank=lambda item, time: -time if item == "c" else time) == "acbde"
    assert order(rank=lambda item, time: "bdace".index(item)) == "badce"


def test_a_circle_is_left_out_and_its_counts_stay():
    needs = {"a": 0, "b": 2, "c": 1}

    assert in_dependency_order(needs, {"a": "b", "b": "c", "c": "b"}.__getitem__) == ["a"]
    assert needs == {"a": 0, "b": 1, "c": 1}
