"""The example that replaces a script of CSV files: its table holds, and catches what the script lets through."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "breaks"


@pytest.fixture
def example(tmp_path):
    folder = shutil.copytree(EXAMPLE, tmp_path / "breaks", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLE.parents[1]), str(folder)])}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    run.folder = folder
    return run


def run_tests(example, *arguments):
    return example("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments)


def test_the_table_of_the_example_holds(example):
    result = run_tests(example)

    assert result.returncode == 0, result.stdout
    assert "10 passed" in result.stdout


@pytest.mark.long
def test_the_script_passes_where_the_table_fails(example):
    assert example("count_breaks.py").returncode == 0
    expected = example.folder / "expected.csv"
    expected.write_text(
        expected.read_text("utf-8").replace("\nmlp,0,", "\nmlp,nan,").replace("\ngated,", "\n,"), "utf-8"
    )
    table = example.folder / "golden" / "test_breaks" / "table.yaml"
    lines = table.read_text("utf-8").splitlines(keepends=True)
    spoiled = "".join(line for line in lines if "[gated]" not in line)
    table.write_text(spoiled.replace("[mlp]', breaks: 0", "[mlp]', breaks: .nan"), "utf-8")

    assert example("count_breaks.py").returncode == 0
    result = run_tests(example, "-k", "mlp or gated")

    assert result.returncode == 1
    assert "mlp" in result.stdout
    table.write_text(spoiled, "utf-8")
    result = run_tests(example, "-k", "gated")
    assert result.returncode == 1
    assert "gated" in result.stdout
