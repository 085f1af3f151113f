"""With pytest-forked each test runs in a process of its own, which has nothing but its reports to hand over."""

from __future__ import annotations

import pytest

pytest.importorskip("pytest_forked")
if pytest.version_tuple >= (9,):
    pytest.skip("pytest-forked 1.6 ends every test with status 3 under pytest 9", allow_module_level=True)

# It uses pytest's py.path, and says so in every run.
OPTIONS = ("--forked", "-p", "no:randomly")

TESTS = """
import os
import torch


def test_fine(fx_golden):
    assert (lambda x: torch.{function}(x)) == fx_golden


def test_crash(fx_golden):
    assert (lambda x: torch.abs(x)) == fx_golden
    {end}
"""


def run(project, *options):
    return project.pytester.runpytest_subprocess(*OPTIONS, *options)


def test_the_walk(project):
    project.test(TESTS.format(function="neg", end="pass"))
    assert run(project).parseoutcomes()["failed"] == 2
    assert project.goldens() == {}

    result = run(project, "--fx-update-golden")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["fx: 2 goldens written"])
    run(project).assert_outcomes(passed=2)

    project.test(TESTS.format(function="exp", end="pass"))
    result = run(project)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*torch.neg -> torch.exp",
            "*- fx golden golden/test_net/test_fine.yaml -*",
            "fx: 1 golden matched, 1 differs",
        ]
    )


def test_a_process_that_dies_writes_nothing_and_its_goldens_are_not_called_unused(project):
    project.test(TESTS.format(function="neg", end="pass"))
    run(project, "--fx-update-golden")
    written = project.goldens()
    project.test(TESTS.format(function="exp", end="os._exit(1)"))

    result = run(project, "--fx-update-golden", "--fx-prune-golden", "--fx-unused=fail")

    result.assert_outcomes(passed=1, failed=1)
    after = project.goldens()
    assert after.keys() == written.keys()
    assert after["test_net/test_crash.yaml"] == written["test_net/test_crash.yaml"]
    assert b"torch.exp" in after["test_net/test_fine.yaml"]


def test_goldens_that_no_test_asked_for_are_found(project):
    project.test(TESTS.format(function="neg", end="pass"))
    run(project, "--fx-update-golden")
    project.write("golden/test_net/test_gone.yaml", (project.path / "golden/test_net/test_fine.yaml").read_text())

    result = run(project, "--fx-prune-golden")

    result.stdout.fnmatch_lines(["fx: removed golden/test_net/test_gone.yaml"])
