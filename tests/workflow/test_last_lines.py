"""The last lines of a run are read in five seconds: what became of the goldens, why, and what to do now."""

from __future__ import annotations

import re

MANY = """
import pytest
import torch


@pytest.mark.parametrize("number", range({count}))
def test_many(fx_golden, number):
    assert (lambda x: {body}) == fx_golden
"""

# Of a run of `project`, which the printed commands repeat.
ARGUMENTS = "-p no:randomly -p no:hypothesispytest"
RECEIVING = f"pytest --fx-received {ARGUMENTS}"


def last_lines(result) -> list[str]:
    """Return what a run says of goldens, beginning with what was written."""
    return [line for line in result.outlines if line.startswith("fx: ")]


def test_a_golden_that_differs_is_counted_and_the_command_that_accepts_it_is_named(project):
    project.update()
    project.model("torch.sigmoid(y)")

    assert last_lines(project.run()) == [
        "fx: next, if the new graph is right: pytest --fx-update-golden test_net.py::test_net",
        "fx: 1 golden differs",
    ]


def test_goldens_that_differ_in_one_way_are_one_line_and_one_command(project):
    project.test(MANY.format(count=3, body="torch.neg(x) + 1"))
    project.update()
    project.test(MANY.format(count=3, body="torch.abs(x) + 1"))

    clusters, accept, counts = last_lines(project.run())

    assert clusters.startswith("fx: 3 goldens differ in the same way (cluster ")
    assert clusters.endswith("): torch.neg -> torch.abs")
    assert re.fullmatch(
        rf"fx: accept the 3 golden files of cluster (\w+) with: {RECEIVING}; fxgraph accept --cluster \1", accept
    )
    assert counts == "fx: 3 goldens differ"


def test_goldens_that_differ_in_several_ways_are_to_be_reviewed(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))
    project.update()
    project.test(MANY.format(count=2, body="(torch.abs, torch.exp)[number](x) + number"))

    assert last_lines(project.run()) == [
        f"fx: next, look at each and decide: {RECEIVING}; fxgraph review",
        "fx: 2 goldens differ",
    ]
    assert last_lines(project.run("--fx-received"))[-2:] == [
        "fx: list them with `fxgraph accept`, look at each and decide with `fxgraph review`",
        "fx: 2 goldens differ",
    ]


def test_missing_goldens_are_written_by_one_command_that_changes_nothing_else(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))

    assert last_lines(project.run()) == [
        f"fx: next, write what is missing: pytest --fx-update-golden --fx-update-only new {ARGUMENTS}",
        "fx: 2 goldens missing",
    ]


def test_unused_goldens_are_counted_with_the_others(project):
    project.test(MANY.format(count=2, body="torch.neg(x) + number"))
    project.update()
    project.test(MANY.format(count=1, body="torch.neg(x) + number"))

    assert last_lines(project.run())[-1] == "fx: 1 golden matched, 1 unused"
    assert last_lines(project.run("--fx-unused=ignore")) == ["fx: 1 golden matched"]


def test_many_files_that_were_written_are_counted_and_v_names_them(project):
    project.test(MANY.format(count=21, body="torch.neg(x) + number"))

    assert last_lines(project.update()) == ["fx: wrote 21 goldens; -v names them", "fx: 21 goldens written"]
    project.test(MANY.format(count=21, body="torch.abs(x) + number"))
    assert len(last_lines(project.update("-v"))) == 22


def test_the_counts_have_the_colour_of_what_is_worst(project, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "\x1b[31mfx: 1 golden missing" in project.run("--color=yes").stdout.str()
    assert "\x1b[33mfx: 1 golden written" in project.update("--color=yes").stdout.str()
    assert "\x1b[32mfx: 1 golden matched" in project.run("--color=yes").stdout.str()


# What pytest knows of a terminal; a real one takes a process of its own.
