"""A run that uses none of the fixtures pays for none of what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_fxgraph

HEAVY = ("torch", "fxcore", "deepdiff", "yaml", "numpy")

CHECK = f"""
import sys
import pytest

class Look:
    def pytest_unconfigure(self):
        heavy = [name for name in {HEAVY!r} if name in sys.modules]
        print("plugin loaded:", "pytest_fxgraph.plugin" in sys.modules)
        print("imported:", heavy)

sys.exit(pytest.main(["-p", "pytest_fxgraph.plugin", "-p", "no:randomly", *sys.argv[1:]], plugins=[Look()]))
"""


def _run(folder: Path, *arguments: str) -> str:
    # Started elsewhere: the conftest of this repository is no part of what is measured.
    command = [sys.executable, "-c", CHECK, f"--rootdir={folder}", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120).stdout


def test_a_run_without_the_fixtures_imports_nothing_heavy(tmp_path):
    tmp_path.joinpath("test_light.py").write_text("def test_light():\n    pass\n")

    output = _run(tmp_path)

    assert "1 passed" in output
    assert "plugin loaded: True" in output
    assert "imported: []" in output


def test_asking_for_the_help_imports_nothing_heavy(tmp_path):
    output = _run(tmp_path, "--help")

    assert "--fx-update-golden" in output
    assert "imported: []" in output


def test_public_names_are_resolved_when_they_are_asked_for():
    code = (
        "import sys, pytest_fxgraph\n"
        "print('torch' in sys.modules, 'assert_graph_equal' in dir(pytest_fxgraph))\n"
        "from pytest_fxgraph import assert_equivalent, assert_graph_equal, assert_graph_matches_golden, diff_graphs\n"
        "print('torch' in sys.modules, callable(diff_graphs))\n"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert run.stdout.split() == ["False", "True", "True", "True"]


def test_a_name_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(AttributeError, match="it has assert_equivalent, assert_graph_equal"):
        pytest_fxgraph.__getattr__("assert_graphs_equal")
