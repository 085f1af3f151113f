"""A small project of a user's, whose tests run inside ours."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

# Runs within this process forget the modules that they import. Those that torch cannot stand to be imported twice,
# and those that are slow to import, are here before the first run.
import pytest_fxgraph.compare.levels
import pytest_fxgraph.document.decoding
import pytest_fxgraph.equivalence.fixture
import pytest_fxgraph.gate.fixture
import pytest_fxgraph.report.text  # noqa: F401

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        y = self.linear(x)
        return {body}
"""

TEST = """
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden
"""


# A failed test shows the user's lines alone.
_FRAME_OF_THE_PLUGIN = re.compile(r"^\S*pytest_fxgraph[/\\]\S+\.py:\d+: .*", re.MULTILINE)


class Project:
    """A folder with a model, tests of it and their goldens."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        pytester.makeini("[pytest]\npythonpath = .\n")

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def model(self, body: str = "torch.relu(y)") -> None:
        self.write("model.py", MODEL.format(body=body))

    def test(self, text: str = TEST, name: str = "test_net.py") -> None:
        self.write(name, text)

    def run(self, *options: str) -> pytest.RunResult:
        # hypothesis would be imported anew, with its assertions rewritten, by each run: two seconds.
        result = self.pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:hypothesispytest", *options)
        assert "--full-trace" in options or not _FRAME_OF_THE_PLUGIN.findall(result.stdout.str())
        return result

    def update(self, *options: str) -> pytest.RunResult:
        return self.run("--fx-update-golden", *options)

    def goldens(self, folder: str = "golden") -> dict[str, bytes]:
        """Return the content of all goldens by their path in the golden folder."""
        root = self.path / folder
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.yaml"))}


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script within this process, which saves the import of torch, and forget what it imports from beside it."""
    before, path, here, written, status = set(sys.modules), list(sys.path), Path.cwd(), io.StringIO(), 0
    os.chdir(script.parent)
    sys.path.insert(0, str(script.parent))
    try:
        with contextlib.redirect_stdout(written):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.path[:] = path
        os.chdir(here)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(here)):
                del sys.modules[name]
    return subprocess.CompletedProcess([str(script)], status, written.getvalue(), "")


@pytest.fixture
def run_again():
    """Return a function that runs a script within this process."""
    return run_script


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a model and one test that compares it with its golden."""
    # A model that is edited within the second, at the same length, would be read from its old byte code.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)  # of the service that builds this very project
    project = Project(pytester)
    project.model()
    project.test()
    return project
