from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import yaml  # noqa: F401  # here, because its C part cannot be imported again by a run in this process

from pytest_fxgraph.gate.activation import enable_golden_session, outcomes_of_run
from pytest_fxgraph.report.outcome import Outcome

CONFTEST = """
def pytest_terminal_summary(terminalreporter, config):
    follows = config.pluginmanager.has_plugin("fxgraph-golden-session")
    terminalreporter.write_line(f"follows: {follows}")
"""

PLAIN = "def test_plain():\n    pass\n"

BY_NAME = """
import torch

def test_net(request):
    assert torch.nn.ReLU() == request.getfixturevalue("fx_golden")
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    pytester.makeconftest(CONFTEST)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:hypothesispytest", *options)


def test_a_run_without_goldens_follows_none(run, pytester):
    pytester.makepyfile(PLAIN)

    run().stdout.fnmatch_lines(["follows: False"])


def test_a_folder_of_goldens_is_reason_enough(run, pytester):
    pytester.makepyfile(PLAIN)
    pytester.mkdir("golden")

    run().stdout.fnmatch_lines(["follows: True"])


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("options", [("--fx-prune-golden",), ("--fx-report", "r.json"), ("-n", "1")], ids=" ".join)
def test_options_about_goldens_and_other_processes_are_reason_enough(run, pytester, options):
    pytester.makepyfile(PLAIN)

    run(*options).stdout.fnmatch_lines(["follows: True"])


def test_a_test_that_names_the_fixture_is_reason_enough(run, pytester):
    pytester.makepyfile("def test_golden(fx_golden):\n    pass\n")

    run("--co").stdout.fnmatch_lines(["follows: True"])


def test_a_golden_that_nobody_announced_is_counted_and_written(run, pytester):
    pytester.makepyfile(BY_NAME)

    run().stdout.fnmatch_lines(["fx: 1 golden missing"])
    run("--fx-update-golden").assert_outcomes(passed=1)
    run().stdout.fnmatch_lines(["fx: 1 golden matched"])


def test_a_run_has_the_outcomes_of_its_session_and_none_without_one(tmp_path):
    config: Any = SimpleNamespace(stash=pytest.Stash(), rootpath=tmp_path, getoption=lambda *_: None)
    config.pluginmanager = SimpleNamespace(register=lambda *_: None)
    assert outcomes_of_run(config) == []

    config.getoption = lambda name, default=None: "golden"
    enable_golden_session(config)
    outcomes = outcomes_of_run(config)
    outcomes.append(Outcome("t", "golden/a.yaml", "structure", "matched"))
    enable_golden_session(config)

    assert outcomes_of_run(config) is outcomes
