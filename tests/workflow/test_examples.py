"""The examples run as they stand, and each hook's example needs its hook."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

HOOKS = sorted(
    folder
    for folder in Path(__file__).parents[2].joinpath("examples", "hooks").iterdir()
    if (folder / "conftest.py").exists()
)


@pytest.fixture
def example(request, project) -> Path:
    """A copy of an example, in place of the project."""
    for file in ("model.py", "test_net.py", "tox.ini"):
        (project.path / file).unlink()
    shutil.copytree(request.param, project.path, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return request.param


def test_every_hook_has_an_example():
    from pytest_fxgraph import hookspecs

    hooks = {name.removeprefix("pytest_fxgraph_") for name in vars(hookspecs) if name.startswith("pytest_fxgraph_")}
    assert {folder.name for folder in HOOKS} == hooks


@pytest.mark.parametrize("example", HOOKS, ids=lambda folder: folder.name, indirect=True)
def test_an_example_passes_with_the_goldens_it_comes_with(example, project):
    before = project.goldens()

    result = project.run("--fx-unused=fail")

    assert result.ret == 0
    assert project.goldens() == before
    if example.name == "report_section":
        result.stdout.fnmatch_lines(["nightly graphs: 1 matched"])


@pytest.mark.parametrize("example", HOOKS, ids=lambda folder: folder.name, indirect=True)
def test_without_its_hook_an_example_would_not_do(example, project):
    (project.path / "conftest.py").unlink()

    result = project.run()

    if example.name == "report_section":
        result.stdout.no_fnmatch_line("nightly graphs*")
    else:
        assert result.ret == pytest.ExitCode.TESTS_FAILED
