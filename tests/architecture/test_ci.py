"""The workflow file tries what pyproject.toml promises, with the steps that are run on a developer's machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load(ROOT.joinpath(".github/workflows/tests.yml").read_text(encoding="utf-8"))
JOBS = WORKFLOW["jobs"]
PAIRS = JOBS["versions"]["strategy"]["matrix"]["include"]
STEPS = sorted(ROOT.joinpath(".ci/steps").iterdir())
SYSTEMS = ("ubuntu-latest", "macos-latest", "windows-latest")


def minor(version):
    return tuple(int(part) for part in version.split(".")[:2])


def declared(package):
    """Return the lowest version of a dependency that pyproject.toml allows."""
    return re.search(rf'"{package}>=([0-9.]+)"', PROJECT)[1]


def lowest():
    """Return the lines of the lowest versions as package, version and condition."""
    lines = ROOT.joinpath(".ci/lowest.txt").read_text(encoding="utf-8").splitlines()
    return [re.fullmatch(r"([\w-]+)==([\w.]+)(?:; (.*))?", line).groups() for line in lines if not line.startswith("#")]


def commands():
    """Return every command of every job."""
    return [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


def test_every_python_that_is_declared_is_tried_on_linux():
    promised = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT))

    assert {pair["python"] for pair in PAIRS if pair["os"] == "ubuntu-latest"} == promised
    assert min(promised, key=minor) == re.search(r'requires-python = ">=(.*)"', PROJECT)[1]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_tried_with_the_oldest_and_the_newest_of_both(system):
    pairs = [pair for pair in PAIRS if pair["os"] == system]

    for part in ("python", "torch"):
        tried = {minor(pair[part]) for pair in pairs}
        assert {min(tried), max(tried)} == {choose(minor(pair[part]) for pair in PAIRS) for choose in (min, max)}
    assert {pair["os"] for pair in PAIRS} == set(SYSTEMS)


def test_the_oldest_torch_is_the_one_that_is_declared_and_every_python_meets_two():
    assert min(minor(pair["torch"]) for pair in PAIRS) == minor(declared("torch"))
    for python in {pair["python"] for pair in PAIRS}:
        assert len({pair["torch"] for pair in PAIRS if pair["python"] == python}) >= 2


def test_versions_are_texts():
    """Python 3.10 as a number would be 3.1."""
    assert all(isinstance(value, str) for pair in PAIRS for value in pair.values())


def test_the_lowest_versions_are_those_that_are_declared():
    for package, version, condition in lowest():
        if condition is None or condition == 'python_version < "3.12"':
            assert (*minor(version), 0)[:2] == (*minor(declared(package)), 0)[:2]
            assert re.fullmatch(r"\d+\.\d+(\.0)?", version)
    assert {"pytest", "pluggy", "deepdiff", "PyYAML"} <= {package for package, _, _ in lowest()}
    assert any(pair.get("constraints") == ".ci/lowest.txt" for pair in PAIRS)


def test_every_step_that_is_named_is_there_and_every_step_is_used():
    named = {command.split()[0] for command in commands()}
    script = ROOT.joinpath(".ci/run").read_text(encoding="utf-8")
    locally = set(re.findall(r"^\.ci/steps/\w+", script, re.MULTILINE))
    (steps,) = re.findall(r"^for step in ([\w ]+); do$", script, re.MULTILINE)
    where_there = {f".ci/steps/{step}" for step in steps.split()}

    assert all(ROOT.joinpath(command).is_file() for command in named | locally)
    assert ".ci/run" in named
    assert {f".ci/steps/{step.name}" for step in STEPS} <= named | locally | where_there
    assert locally >= {".ci/steps/checks", ".ci/steps/sdist", ".ci/steps/wheel"}
    assert where_there == {".ci/steps/docs", ".ci/steps/browser"}


def test_every_example_repository_is_run_with_the_wheel():
    repositories = {file.parent.name for file in ROOT.glob("examples/*/pyproject.toml")}
    (run,) = re.findall(r"^for example in ([\w ]+); do$", text_of_step("wheel"), re.MULTILINE)

    assert set(run.split()) == repositories
    assert repositories >= {"model_repository", "compiler_passes", "compile_gate", "tensor_parallel"}


def text_of_step(name):
    return ROOT.joinpath(".ci/steps", name).read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [ROOT / ".ci/run", *STEPS], ids=lambda path: path.name)
def test_a_script_is_one_that_bash_runs_on_every_system(script):
    content = script.read_bytes()

    assert content.startswith(b"#!/usr/bin/env bash\n# ")
    assert b"set -euo pipefail\n" in content
    assert b"\r" not in content
    assert sys.platform == "win32" or os.access(script, os.X_OK)
    if shutil.which("bash") and sys.platform != "win32":
        subprocess.run(["bash", "-n", script], check=True)


def test_windows_uses_bash_and_every_job_ends():
    assert WORKFLOW["defaults"]["run"]["shell"] == "bash"
    assert all(job["timeout-minutes"] <= 90 for job in JOBS.values())


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="needs bash, where it is no guest")
@pytest.mark.parametrize("folder", ["bin/python", "Scripts/python.exe"])
def test_the_steps_find_the_python_of_an_environment_on_every_system(tmp_path, folder):
    python = tmp_path / "env" / folder
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$0" "$@"\n', encoding="utf-8")
    python.chmod(0o755)

    script = f'set -eu; source "{ROOT}/.ci/venv"; python_of env -m pytest -k "a b"'
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ran.stdout == f"env/{folder} -m pytest -k a b\n"
