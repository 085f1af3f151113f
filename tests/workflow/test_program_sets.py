"""A subject of several programs has a golden for each; all are compared, and an update writes all or none."""

from __future__ import annotations

TEST = """
import torch
from fixtures.lowered import EdgeProgramManager

def sin(x):
    return torch.sin(x)

def cos(x):
    return torch.cos(x)

def test_net(fx_golden):
    assert EdgeProgramManager({programs}) == fx_golden
"""
FOLDER = "test_net/"


def names(project):
    return [name.removeprefix(FOLDER) for name in sorted(project.goldens())]


def test_each_program_has_a_golden(project):
    project.test(TEST.format(programs='{"forward": sin, "prefill": cos}'))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*there is no golden *test_net.forward.yaml", "*there is no golden *test_net.prefill.yaml"]
    )

    project.update().assert_outcomes(passed=1)

    assert names(project) == ["test_net.forward.yaml", "test_net.prefill.yaml"]
    project.run().assert_outcomes(passed=1)


def test_a_program_that_differs_fails_and_an_update_writes_it_alone(project):
    project.test(TEST.format(programs='{"forward": sin, "prefill": cos}'))
    project.update()
    before = project.goldens()
    project.test(TEST.format(programs='{"forward": sin, "prefill": sin}'))

    project.run().assert_outcomes(failed=1)
    project.update().assert_outcomes(passed=1)

    after = project.goldens()
    assert [name for name in before if before[name] != after[name]] == [f"{FOLDER}test_net.prefill.yaml"]


def test_one_more_program_is_missing(project):
    project.test(TEST.format(programs='{"forward": sin}'))
    project.update()
    project.test(TEST.format(programs='{"forward": sin, "prefill": cos}'))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no golden *test_net.prefill.yaml"])


def test_a_program_that_vanished_fails_until_its_golden_is_removed(project):
    project.test(TEST.format(programs='{"forward": sin, "prefill": cos}'))
    project.update()
    project.test(TEST.format(programs='{"forward": sin}').replace("fx_golden\n", 'fx_golden(level="ops")\n'))

    for _ in range(2):
        result = project.run()
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*the program 'prefill' is gone, which the golden *test_net.prefill.yaml holds"])
        result.stdout.fnmatch_lines(["*remove its golden: pytest --fx-update-golden * --fx-prune-golden"])
        project.update()

    project.update("--fx-prune-golden").assert_outcomes(passed=1)

    assert names(project) == ["test_net.forward.yaml"]
    project.run().assert_outcomes(passed=1)


def test_nothing_is_written_if_one_program_cannot_be(project):
    project.test(TEST.format(programs='{"forward": sin, "prefill": lambda x: bool(x)}'))

    project.update().assert_outcomes(failed=1)

    assert names(project) == []
