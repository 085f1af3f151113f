"""fx_golden_dir = beside: each test file has a golden folder beside it, wherever the tests are run from."""

from __future__ import annotations

import pytest

from pytest_fxgraph.command.main import main

TEST = """
import pytest
import torch


@pytest.mark.parametrize("p", ["a b"])
def test_net(fx_golden, p):
    assert (lambda x: torch.{function}(x)) == fx_golden
"""


@pytest.fixture
def beside(project):
    """A repository of two projects whose goldens lie beside their tests, one with a configuration of its own."""
    (project.path / "test_net.py").unlink()
    (project.path / ".git").mkdir()
    ini = "[pytest]\npythonpath = .\nfx_golden_dir = beside\n"
    project.pytester.makeini(ini)
    project.write("sub/pytest.ini", ini)
    for name in ("tests/test_net.py", "sub/tests/test_other.py"):
        project.test(TEST.format(function="neg"), name)
    project.run("--fx-update-golden").assert_outcomes(passed=2)
    return project


def goldens(project) -> list[str]:
    return sorted(path.relative_to(project.path).as_posix() for path in project.path.rglob("*.yaml"))


def test_goldens_lie_in_the_folders_of_their_tests(beside):
    first, second = goldens(beside)

    assert first.startswith("sub/tests/golden/test_other/test_net-a%20b~")
    assert second.startswith("tests/golden/test_net/test_net-a%20b~")


def test_a_run_from_another_rootdir_uses_the_same_files(beside, monkeypatch):
    before = goldens(beside)
    monkeypatch.chdir(beside.path / "sub")

    beside.run().assert_outcomes(passed=1)
    beside.run("--rootdir=tests", "tests").assert_outcomes(passed=1)

    assert goldens(beside) == before


def test_a_folder_of_that_very_name_is_named_with_a_dot(project):
    project.update("--fx-golden-dir=./beside").assert_outcomes(passed=1)

    assert list(project.goldens("beside")) == ["test_net/test_net.yaml"]


def test_goldens_of_tests_that_are_gone_are_pruned_everywhere(beside):
    beside.test("def test_nothing():\n    pass\n", "tests/test_net.py")
    (beside.path / "sub/tests/test_other.py").unlink()
    stale = goldens(beside)
    foreign = beside.write("tests/golden/test_net/foreign.yaml", "rows: 3\n")

    told = beside.run()
    pruned = beside.run("--fx-prune-golden", "-n1")

    told.stdout.fnmatch_lines([f"fx: unused {name.replace('[', '[[]')}" for name in stale])
    pruned.stdout.fnmatch_lines([f"fx: removed {name}" for name in stale])
    assert goldens(beside) == [foreign.relative_to(beside.path).as_posix()]
    assert (beside.path / "sub/tests").is_dir()


def test_a_run_of_one_folder_judges_the_goldens_of_its_files(beside):
    beside.test("def test_nothing():\n    pass\n", "tests/test_net.py")
    beside.test("def test_nothing():\n    pass\n", "sub/tests/test_other.py")

    result = beside.run("tests")

    result.stdout.fnmatch_lines(["fx: unused tests/golden/test_net/*"])
    result.stdout.no_fnmatch_line("fx: unused sub/*")


def test_the_command_finds_received_and_unused_goldens_from_any_folder(beside, monkeypatch, capsys):
    for name in ("tests/test_net.py", "sub/tests/test_other.py"):
        beside.test(TEST.format(function="abs"), name)
    beside.run("--fx-received").assert_outcomes(failed=2)
    before = {name: (beside.path / name).read_bytes() for name in goldens(beside) if "received" not in name}
    monkeypatch.chdir(beside.path / "tests")
    capsys.readouterr()

    assert main(["accept"]) == 1
    listed = capsys.readouterr().out
    assert main(["accept", "--cluster", "1"]) == 0

    assert "2 goldens: torch.neg -> torch.abs" in listed  # the words of the run
    assert "     ../sub/tests/golden/test_other/" in listed
    assert goldens(beside) == sorted(before)
    assert all((beside.path / name).read_bytes() != content for name, content in before.items())
    (beside.path / "tests/test_net.py").unlink()
    capsys.readouterr()
    assert main(["report", "--unused"]) == 1
    assert capsys.readouterr().out.startswith("../tests/golden/test_net/test_net-a%20b~")


@pytest.mark.slow
def test_collectors_of_yaml_see_no_golden(beside):
    beside.write(
        "conftest.py",
        "import pytest\n\n\nclass Sheet(pytest.File):\n    def collect(self):\n        raise OSError(self.path)\n\n"
        "def pytest_collect_file(file_path, parent):\n    if file_path.suffix == '.yaml':\n"
        "        return Sheet.from_parent(parent, path=file_path)\n",
    )

    beside.run().assert_outcomes(passed=2)

    beside.write("tests/data/sheet.yaml", "rows: 3\n")
    beside.run().assert_outcomes(errors=1)
