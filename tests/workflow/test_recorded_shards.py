"""The recipes of docs/how-to/ci.md for recordings in shards, played on this machine without the services."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.s3_server import s3_bucket
from pytest_fxgraph.command.main import main

SUITE = """
import pytest, torch, torch.fx

@pytest.mark.parametrize("number", range(6))
def test_model(number):
    torch.fx.symbolic_trace(lambda x: torch.{operator}(x) + number)
"""
SPLIT = """
def pytest_addoption(parser):
    parser.addoption("--splits", type=int)
    parser.addoption("--group", type=int)

def pytest_collection_modifyitems(config, items):  # as pytest-split does, without times
    if config.option.splits:
        items[:] = items[config.option.group - 1 :: config.option.splits]
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Write a suite, and return a function that runs it as a job of its own."""
    monkeypatch.chdir(tmp_path)
    Path("conftest.py").write_text(SPLIT)
    Path("pytest.ini").write_text("[pytest]\naddopts = -p no:randomly -p no:cacheprovider -q\n")

    def job(*arguments, operator="relu", **variables):
        Path("test_suite.py").write_text(SUITE.replace("{operator}", operator))
        subprocess.run(
            [sys.executable, "-m", "pytest", "--fx-record-seeded", *arguments],
            env={**os.environ, **variables},
            check=True,
            timeout=300,
        )

    return job


def compared(capfd, *places):
    capfd.readouterr()
    status = main(["replay", "--against", *places])
    return status, capfd.readouterr().out.splitlines()[0]


@pytest.mark.slow
def test_folders_of_pytest_split_are_compared_as_one_recording(suite, capfd):
    suite("--fx-record", "main")
    for group in "123":
        suite("--splits", "3", "--group", group, "--fx-record", f"recordings/recording-{group}", operator="tanh")
        shutil.copytree(f"recordings/recording-{group}", "merged", dirs_exist_ok=True)  # `merge-multiple: true`

    for place in ("recordings", "merged"):
        status, words = compared(capfd, "main", place)
        assert status == 1
        assert words == "6 tests, 6 graphs: 0 same, 1 edit in 6 graphs"


@pytest.mark.slow
def test_workers_of_xdist_write_one_recording(suite, capfd):
    pytest.importorskip("xdist")
    suite("--fx-record", "main")
    suite("-n", "2", "--fx-record", "change")

    assert compared(capfd, "main", "change") == (0, "6 tests, 6 graphs: 6 same")
    assert len([*Path("change/index").iterdir()]) >= 2


@pytest.mark.slow
def test_outputs_of_bazel_are_copied_over_each_other(suite, capfd):
    suite("--fx-record", "main")
    for target, group in (("vision", "1"), ("text", "2")):
        outputs = Path(f"bazel-testlogs/{target}/test.outputs")
        outputs.mkdir(parents=True)
        suite("--splits", "2", "--group", group, "--fx-record", str(outputs))
    script = 'for outputs in $(find -L bazel-testlogs -name test.outputs); do cp -r "$outputs/." recordings/; done'
    Path("recordings").mkdir()
    subprocess.run(["sh", "-c", script], check=True)

    assert compared(capfd, "main", "recordings") == (0, "6 tests, 6 graphs: 6 same")


@pytest.mark.slow
def test_parallel_jobs_of_buildkite_write_to_one_url(suite, capfd):
    with s3_bucket("pipeline") as bucket:
        suite("--fx-record", f"{bucket}/main")
        for job in "01":
            group = str(int(job) + 1)
            suite("--splits", "2", "--group", group, "--fx-record", f"{bucket}/4f1929e", operator="tanh")

        status, words = compared(capfd, f"{bucket}/main", f"{bucket}/4f1929e")
        assert (status, words) == (1, "6 tests, 6 graphs: 0 same, 1 edit in 6 graphs")
        assert main(["store", "show", f"{bucket}/4f1929e"]) == 0
        assert capfd.readouterr().out.splitlines()[2] == "6 tests, 6 records of graphs"
