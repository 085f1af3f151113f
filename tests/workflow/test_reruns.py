"""With pytest-rerunfailures the last attempt alone counts."""

from __future__ import annotations

import pytest

pytest.importorskip("pytest_rerunfailures")

FLAKY = """
import pathlib
import torch
from model import Net

ATTEMPTS = pathlib.Path(__file__).with_name("attempts.txt")


def test_net(fx_golden):
    with ATTEMPTS.open("a") as file:
        file.write("x")
    attempt = len(ATTEMPTS.read_text())
    assert (lambda x: {function}(x)) == fx_golden
    assert attempt >= {needed}
"""


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)])
def test_a_test_that_passes_at_its_third_attempt_writes_what_that_one_saw(project, workers):
    project.test(FLAKY.format(function="[torch.neg, torch.abs, torch.exp][attempt - 1]", needed=3))

    result = project.update("--reruns=4", workers)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden written"])
    assert b"torch.exp" in project.goldens()["test_net/test_net.yaml"]


def test_a_test_that_never_passes_writes_nothing(project):
    project.test(FLAKY.format(function="torch.neg", needed=99))

    result = project.update("--reruns=2")

    result.assert_outcomes(failed=1)
    assert project.goldens() == {}


def test_an_attempt_whose_teardown_fails_does_not_write(project):
    project.test(
        """
import pathlib
import pytest
import torch

ATTEMPTS = pathlib.Path(__file__).with_name("attempts.txt")


@pytest.fixture
def resource():
    yield
    with ATTEMPTS.open("a") as file:
        file.write("x")
    raise RuntimeError("still open")


def test_net(resource, fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden
"""
    )

    project.update("--reruns=2")

    assert project.goldens() == {}
