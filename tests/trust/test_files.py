"""A golden file is whole whatever happens to the run that writes it, and refused or read whatever happened to it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from fixtures import file_damage
from fixtures.catalog import CATALOG
from fixtures.file_damage import hostile, verdict
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.store import TEMPORARY_SUFFIX

ROOT = Path(__file__).parents[2]
GOLDEN = encode(build_document(trace(CATALOG["conv_bn_relu"].build().eval())))
HOSTILE = hostile(GOLDEN)
EXECUTED = Path("executed-by-a-golden")


def verdicts(contents) -> Counter[str]:
    return Counter(verdict(content, GOLDEN) for content in contents)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process cannot be copied here, to be killed")
@pytest.mark.parametrize("stride", [101, pytest.param(1, marks=pytest.mark.long)])
def test_a_write_that_is_killed_or_fails_at_any_step_leaves_the_old_or_the_new_golden(stride, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "fixtures.killed_writes", str(tmp_path / "golden"), str(stride)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    counted = json.loads(ran.stdout)
    tried = len(range(1, counted["steps"] + 1, stride))
    assert sum(count for name, count in counted.items() if name.startswith(("killed, ", "finished, "))) == tried
    assert counted["killed, old golden"] > tried // 2
    assert counted["disk full: failed, old golden"] > tried // 2


PROJECT = """
import pytest
import torch


@pytest.mark.parametrize("number", range(40))
def test_many(fx_golden, number):
    assert (lambda x: torch.{function}(x) + number) == fx_golden
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.long)])
@pytest.mark.parametrize("written", [3, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 10, 20, 39))])
def test_a_run_that_is_killed_while_it_updates_leaves_goldens_that_are_all_whole(tmp_path, written, workers):
    if workers != "-n0":
        pytest.importorskip("xdist")
    test = tmp_path / "test_net.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "--fx-update-golden"]
    if workers != "-n0":
        command.append(workers)
    test.write_text(PROJECT.format(function="neg"))
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    before = goldens_below(tmp_path)
    test.write_text(PROJECT.format(function="abs"))

    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and changed(before, tmp_path) < written:
        time.sleep(0.002)
    run.kill()
    run.wait()

    after = goldens_below(tmp_path)
    assert after.keys() == before.keys()
    assert all(b"torch.neg" in text or b"torch.abs" in text for text in after.values())
    for name, text in after.items():
        decode(text, name)
    left = [path.name for path in (tmp_path / "golden").rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert all(name.endswith(TEMPORARY_SUFFIX) for name in left)
    # What was interrupted can be done again.
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert all(b"torch.abs" in text for text in goldens_below(tmp_path).values())


def goldens_below(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "golden").rglob("*.yaml")}


def changed(before: dict[str, bytes], folder: Path) -> int:
    return sum(before.get(name) != text for name, text in goldens_below(folder).items())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_nothing_in_it_is_executed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = HOSTILE[name].replace(b"'true'", f"'touch {EXECUTED}'".encode())

    with pytest.raises(GoldenFormatError, match=r"cannot read the golden file golden/g\.yaml"):
        decode(content, "golden/g.yaml")

    assert not EXECUTED.exists()


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.long)])
def test_a_golden_that_was_cut_off_is_never_taken_for_the_whole(step):
    content = GOLDEN.encode()
    found = {end * step: verdict(part, GOLDEN) for end, part in enumerate(file_damage.cut_off(content, step))}

    # The last line end is no part of the graph.
    assert {end for end, word in found.items() if word != "refused"} <= {len(content) - 1}


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.long)])
def test_a_golden_with_one_bit_flipped_is_refused_or_read(step):
    found = verdicts(file_damage.bits_flipped(GOLDEN.encode(), step))

    assert found["refused"] > 0
    assert found["the same graph"] <= found.total() // 20


def test_a_golden_with_lines_lost_doubled_or_exchanged_is_refused_or_read():
    found = verdicts(file_damage.lines_lost_doubled_and_exchanged(GOLDEN.encode()))

    assert found["refused"] > found.total() // 3


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_scrambled_golden_is_refused_or_read(count):
    found = verdicts(file_damage.scrambled(GOLDEN.encode(), random.Random(5), count))

    assert found.total() == count
    assert found["refused"] > count // 3
