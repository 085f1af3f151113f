"""The command that a failure prints accepts this test's golden, and touches no other."""

from __future__ import annotations

import re
import shlex

import pytest

IDS = ["a b", "[x]", '"', "'", "a::b", "$(rm -r .)", "*?;&|", "é", "x" * 120]
PARAMETRIZED = """
import pytest
import torch


class TestNet:
    @pytest.mark.parametrize("p", {ids!r})
    def test_net(self, fx_golden, p):
        assert (lambda x: torch.{function}(x)) == fx_golden
"""


def commands(result: pytest.RunResult) -> list[list[str]]:
    """Return the commands of all failures, as a shell splits them, without `pytest` itself."""
    found = [
        re.fullmatch(r"E +(?:look at .* write the goldens of this test: )?(pytest --fx-update-golden .*)", line)
        for line in result.outlines
    ]
    return [shlex.split(match[1])[1:] for match in found if match]


@pytest.mark.slow
def test_of_parametrized_tests_each_command_changes_one_golden(project):
    project.test(PARAMETRIZED.format(ids=IDS, function="neg"))
    project.update()
    before = project.goldens()
    project.test(PARAMETRIZED.format(ids=IDS, function="abs"))

    printed = commands(project.run())

    assert len(printed) == len(IDS)
    changed: set[str] = set()
    for command in printed:
        project.run(*command).assert_outcomes(passed=1)
        after = project.goldens()
        new = {name for name in after if after[name] != before[name]} - changed
        assert len(new) == 1
        changed |= new
    assert changed == before.keys()


def test_the_command_of_a_missing_golden_writes_that_golden(project):
    project.test(PARAMETRIZED.format(ids=["a", "b"], function="neg"))
    (first, _) = commands(project.run())

    project.run(*first).assert_outcomes(passed=1)

    assert list(project.goldens()) == [name for name in project.goldens() if "test_net-a" in name]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)])
def test_rootdir_configuration_overrides_and_level_of_the_run_are_repeated(project, monkeypatch, workers):
    project.write("configs/own.ini", "[pytest]\npythonpath = ..\n")
    folder = project.path / "tests"
    project.test(name="tests/test_net.py")
    monkeypatch.chdir(folder)
    options = [
        "--rootdir=..",
        "-c",
        "../configs/own.ini",
        "-o",
        "fx_golden_dir=own goldens",
        "--fx-level=exact",
        workers,
    ]

    (command,) = commands(project.run(*options, "test_net.py"))

    assert "--rootdir .. -c ../configs/own.ini -o 'fx_golden_dir=own goldens' --fx-level exact" in shlex.join(command)
    project.run(*command).assert_outcomes(passed=1)
    assert list(project.goldens("own goldens")) == ["tests/test_net/test_net.yaml"]
    project.run(*options, "test_net.py").assert_outcomes(passed=1)


def test_the_strictness_of_the_ini_file_is_not_repeated(project):
    project.pytester.makeini("[pytest]\npythonpath = .\naddopts = --strict-markers --strict-config\n")
    project.test("import torch\n\n\ndef test_net(fx_golden):\n    assert (lambda x: torch.neg(x)) == fx_golden\n")

    (command,) = commands(project.run())

    assert command == ["--fx-update-golden", "test_net.py::test_net"]
