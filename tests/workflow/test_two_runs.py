"""Two runs that update one file at once: the second waits, reads the file again and writes its own part, or refuses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Each run compares before either writes.
TESTS = """
import os
import pathlib
import time

import torch


def both_have_compared():
    here = pathlib.Path(__file__).parent
    (here / f"ready-{os.environ['RUN']}").touch()
    until = time.monotonic() + 60
    while len(list(here.glob("ready-*"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)


def graph(x):
    return getattr(torch, os.environ["OPERATOR"])(x)


def test_file(fx_golden):
    assert graph == fx_golden
    both_have_compared()


def test_one(fx_golden):
    assert graph == fx_golden.inline()
    both_have_compared()


def test_two(fx_golden):
    assert graph == fx_golden.inline()
    both_have_compared()


def test_row_one(fx_table):
    assert graph == fx_table(extra={"seconds": len(os.environ["OPERATOR"])})
    both_have_compared()


def test_row_two(fx_table):
    assert graph == fx_table(extra={"seconds": len(os.environ["OPERATOR"])})
    both_have_compared()
"""


@pytest.fixture
def two_runs(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")

    def run(first, second):
        """Run one test with an operator in each of two processes; return their exit statuses and what they print."""
        runs = []
        for name, (test, operator) in (("a", first), ("b", second)):
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--fx-update-golden"]
            environment = {**os.environ, "RUN": name, "OPERATOR": operator, "PYTHONDONTWRITEBYTECODE": "1"}
            runs.append(
                subprocess.Popen(
                    [*command, f"test_it.py::{test}"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
            )
        printed = [each.communicate(timeout=120)[0] for each in runs]
        return sorted(zip([each.returncode for each in runs], printed, strict=True), key=lambda each: each[0])

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [("test_one", "test_two"), pytest.param("test_row_one", "test_row_two", marks=pytest.mark.slow)],
)
def test_each_run_writes_its_own_part_of_one_file(two_runs, tmp_path, first, second):
    runs = two_runs((first, "relu"), (second, "sigmoid"))

    assert [status for status, _ in runs] == [0, 0]
    if first == "test_one":
        source = (tmp_path / "test_it.py").read_text(encoding="utf-8")
        assert (source.count("torch.relu(%x)"), source.count("torch.sigmoid(%x)")) == (1, 1)
    else:
        table = (tmp_path / "golden" / "test_it" / "table.yaml").read_text(encoding="utf-8")
        assert table.count("row: ") == 2
    assert not list(tmp_path.rglob("*.fxgraph-tmp"))


@pytest.mark.parametrize(
    ("test", "words"),
    [
        pytest.param(
            "test_file",
            "cannot write golden/test_it/test_file.yaml: another run has changed it since",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "test_one",
            ": another run has changed its text since this run was compared with it",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "test_row_one",
            "cannot write 1 row of golden/test_it/table.yaml: test_row_one: another run has changed them",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_part_that_another_run_has_changed_is_refused(two_runs, test, words):
    (status, _), (refused, printed) = two_runs((test, "relu"), (test, "sigmoid"))

    assert (status, refused) == (0, 1)
    assert words in printed
    assert "1 golden not written" in printed


@pytest.mark.slow
def test_two_runs_that_write_the_same_both_pass(two_runs):
    assert [status for status, _ in two_runs(("test_file", "relu"), ("test_file", "relu"))] == [0, 0]
