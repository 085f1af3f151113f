"""A mismatch is told in at most six lines, the whole in a section."""

from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error, with_line
from pytest_fxgraph.equivalence.tolerance import Tolerance

FIGURES = measure(torch.zeros(2), torch.ones(2), Tolerance(0.0, 0.0))


def many(count: int) -> list[Mismatch]:
    return [Mismatch("value", f"output[{index}]", "has other values", FIGURES) for index in range(count)]


def test_the_message_has_six_lines_and_the_section_all():
    error = mismatch_error(many(50), CheckContext(mode="train", sample=1, samples=3, seed=7), ("note one", "note two"))

    lines = str(error).splitlines()
    assert lines[0] == "eager and graph differ (mode train, sample 2 of 3, seed 7): output[0] has other values"
    assert lines[3] == "  also: output[1]; output[2]; output[3]; and 46 more"
    assert lines[4:] == ["  note one", "  note two"]
    assert error.section.splitlines()[:2] == [
        "eager and graph differ (mode train, sample 2 of 3, seed 7):",
        "- output[0] has other values",
    ]
    assert all(f"output[{index}]" in error.section for index in range(50))
    assert "note two" in error.section
    assert len(error.mismatches) == 50


def test_what_explains_the_rest_comes_first():
    found = [Mismatch("stride", "output", "is turned"), Mismatch("dtype", "output", "is wide")]

    assert "differ: output is wide" in str(mismatch_error(found, CheckContext()))


def test_lines_and_sections_are_bounded():
    error = mismatch_error([Mismatch("value", "output", "x" * 1000), *many(1000)], CheckContext())

    assert max(map(len, str(error).splitlines())) <= 200
    assert "and 801 more" in error.section


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (CheckContext(), "graph differ: "),
        (CheckContext(samples=2), "graph differ (sample 1 of 2, seed 0): "),
        (CheckContext(mode="eval"), "graph differ (mode eval): "),
        (CheckContext(samples=1, sample=0, seed=3), "graph differ: "),
        (
            CheckContext("graph after pass 2 (fuse)", samples=2, seed=3),
            "pass 2 (fuse) differ (sample 1 of 2, seed 3): ",
        ),
    ],
)
def test_the_mode_and_one_of_several_samples_are_named(context, words):
    assert words in str(mismatch_error(many(1), context))


@pytest.mark.parametrize(
    ("count", "also"), [(1, None), (2, "output[1]"), (4, "output[1]; output[2]; output[3]"),
                        (5, "output[1]; output[2]; output[3]; and 1 more")]
)  # fmt: skip
def test_three_further_differences_are_named(count, also):
    assert [line for line in str(mismatch_error(many(count), CheckContext())).splitlines() if "also" in line] == (
        [] if also is None else [f"  also: {also}"]
    )


def test_a_further_difference_without_figures_is_told_in_words():
    error = mismatch_error([*many(1), Mismatch("stride", "input 0", "is turned")], CheckContext())

    assert str(error).splitlines()[3] == "  also: input 0 is turned"


@pytest.mark.parametrize(("count", "more"), [(200, []), (201, ["- and 1 more"])])
def test_a_section_has_at_most_two_hundred_differences(count, more):
    lines = mismatch_error(many(count), CheckContext()).section.splitlines()

    assert len([line for line in lines if line.startswith("- output[")]) == 200
    assert [line for line in lines if line.endswith("more")] == more


@pytest.mark.parametrize("length", [200, 201])
def test_a_line_of_more_than_two_hundred_characters_is_cut(length):
    beginning = "eager and graph differ: output "
    text = "x" * (length - len(beginning))

    line = str(mismatch_error([Mismatch("value", "output", text)], CheckContext()))

    assert line == f"{beginning}{text}" if length == 200 else f"{beginning}{text}"[:197] + "..."


@pytest.mark.parametrize(
    ("place", "expected"),
    [({}, ["abcde", "new"]), ({"place": 1}, ["a", "new", "bcde"]), ({"place": 6}, ["abcdef"])],
)
def test_a_further_line_takes_its_place_and_the_last_line_goes(place, expected):
    lines = {letter: Mismatch("value", "output", letter) for letter in "a"}
    error = mismatch_error([lines["a"]], CheckContext(), ("b", "c", "d", "e", "f"))

    told = with_line(error, "new", **place)

    shown = "".join(line.strip() if line.strip() == "new" else line[-1] for line in str(told).splitlines())
    assert shown == "".join(expected)
    assert told.section.endswith("f\nnew")
    assert told.mismatches == error.mismatches


@pytest.mark.parametrize("length", [198, 199])
def test_a_further_line_is_cut_as_the_others(length):
    line = str(with_line(mismatch_error(many(1), CheckContext()), "x" * length, place=1)).splitlines()[1]

    assert line == ("  " + "x" * 198 if length == 198 else "  " + "x" * 195 + "...")


def test_reports_get_the_figures_of_a_difference():
    assert many(1)[0].report_data()["histogram"] is not None
    assert "statistics" not in many(1)[0].report_data()
    assert Mismatch("stride", "output", "is turned").report_data() == {
        "where": "output",
        "description": "is turned",
        "lines": (),
        "histogram": None,
    }
