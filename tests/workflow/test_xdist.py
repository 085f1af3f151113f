"""Under pytest-xdist workers compare and the controller alone writes."""

from __future__ import annotations

import pytest

pytest.importorskip("xdist")

MANY = """
import torch
import pytest


@pytest.mark.parametrize("number", range(6))
def test_many(fx_golden, number):
    assert (lambda x: {function}(x) + number) == fx_golden
"""


@pytest.mark.slow
def test_the_walk_with_two_workers(project):
    project.test(MANY.format(function="torch.neg"))
    result = project.update("-n2")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["fx: 6 goldens written"])
    written = project.goldens()
    assert len(written) == 6

    project.run().assert_outcomes(passed=6)

    project.test(MANY.format(function="torch.abs"))
    result = project.run("-n1")
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(
        ["E*torch.neg*torch.abs*", "*- fx golden golden/test_net/test_many*", "fx: 6 goldens differ"]
    )
    assert project.goldens() == written


@pytest.mark.slow
def test_one_process_and_two_workers_write_the_same_bytes(project):
    project.test(MANY.format(function="torch.neg"))
    project.update("-n0")
    alone = project.goldens()

    project.update("-n2", "--fx-golden-dir=other", "--dist=loadfile").assert_outcomes(passed=6)

    assert project.goldens("other") == alone


@pytest.mark.slow
def test_a_worker_that_crashes_writes_nothing_and_the_others_do(project):
    project.test(
        """
import os
import torch


def test_fine(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden


def test_crash(fx_golden):
    assert (lambda x: torch.abs(x)) == fx_golden
    os._exit(1)
"""
    )

    result = project.update("-n2")

    result.assert_outcomes(passed=1, failed=1)
    assert list(project.goldens()) == ["test_net/test_fine.yaml"]


@pytest.mark.slow
def test_a_marker_with_a_wrong_value_fails_its_test(project):
    project.test(
        "import pytest\nfrom model import Net\n\n\n@pytest.mark.fx(level='vague')\n"
        "def test_net(fx_golden):\n    assert Net() == fx_golden\n"
    )

    result = project.run("-n1")

    assert result.ret != 0
    result.stdout.fnmatch_lines(["*expected one of exact, structure, *, kernels, got 'vague'*"])
