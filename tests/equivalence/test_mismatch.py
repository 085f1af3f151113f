"""A mismatch is told in at most six lines, the whole in a section."""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
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
