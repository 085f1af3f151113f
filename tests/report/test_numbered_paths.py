"""Paths that count up are listed by the first and the last."""

from __future__ import annotations

import pytest

from pytest_fxgraph.report.numbered_paths import format_paths, format_ranges, steps_between


def layers(*numbers: int) -> list[str]:
    return [f"layers.{number}.norm" for number in numbers]


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([], ""),
        (layers(0, 1, 5), "layers.0.norm, layers.1.norm, layers.5.norm"),
        (layers(0, 1, 2, 3), "layers.0.norm .. layers.3.norm"),
        (layers(0, 1, 2, 4, 5, 6, 9), "layers.0.norm .. layers.2.norm, layers.4.norm .. layers.6.norm, layers.9.norm"),
        (layers(0, 2, 4, 6), "layers.0.norm, layers.2.norm .. layers.6.norm"),
        (layers(3, 2, 1, 0), "layers.3.norm, layers.2.norm, layers.1.norm, layers.0.norm"),
        (["mul_1", "mul_2", "mul_3", "add"], "mul_1 .. mul_3, add"),
        (["a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"], "a.0.b.0, a.0.b.1, a.1.b.0, a.1.b.1"),
    ],
)
def test_ranges_tell_no_place_that_is_not_there(places, words):
    assert format_paths(places) == words


def test_of_many_ranges_some_are_left_out_and_counted():
    words = format_paths([f"x.{number}" for start in range(0, 1000, 100) for number in (start, start + 1, start + 2)])

    assert words.startswith("x.0 .. x.2, x.100 .. x.102")
    assert words.endswith("x.400 .. x.402, and 15 more")


def test_places_that_differ_in_more_than_numbers_have_no_steps_between_them():
    assert steps_between("a.1", "b.2") is None
    assert steps_between("a.1.b.2", "a.3.b.2") == (2, 0)
    assert steps_between("9" * 5000, "8" * 5000) is not None


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([], ""),
        (layers(0), "layers.0.norm"),
        (layers(0, 1), "layers.0.norm, layers.1.norm"),
        (layers(0, 1, 2), "layers.0-2.norm"),
        (layers(0, 2, 4), "layers.0.norm, layers.2.norm .. layers.4.norm"),
        (layers(9, 10, 11, 20), "layers.9-11.norm, layers.20.norm"),
        ([f"a.1.b.{number}.c" for number in range(4)], "a.1.b.0-3.c"),
        ([f"a.{number}.b.1" for number in range(4)], "a.0-3.b.1"),
        (["head"] * 3, "head, head, head"),
    ],
)
def test_a_short_range_is_written_once_at_the_number_that_goes_up(places, words):
    assert format_ranges(places) == words


def test_at_most_5_ranges_are_listed():
    def ranges(count):
        return [f"x.{start + number}" for start in range(0, count * 100, 100) for number in range(3)]

    five = "x.0-2, x.100-102, x.200-202, x.300-302, x.400-402"
    assert format_ranges(ranges(5)) == five
    assert format_ranges(ranges(6)) == f"{five}, and 3 more"
    assert format_paths(ranges(5)).endswith("x.400 .. x.402")
    assert format_paths(ranges(6)).endswith("x.400 .. x.402, and 3 more")


def test_three_paths_are_listed_and_four_are_a_range():
    assert format_paths(["x.0", "x.1", "x.2"]) == "x.0, x.1, x.2"
    assert format_paths(["x.0", "x.1", "x.2", "x.3"]) == "x.0 .. x.3"
