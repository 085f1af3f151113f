"""Real ranks: results, errors with the rank's name, ranks that wait, and processes and files that are left behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fixtures.process_groups import training_forks as training_forks
from pytest_fxgraph.errors import RanksError
from pytest_fxgraph.ranks import processes
from pytest_fxgraph.ranks.processes import run_on_ranks

dist = torch.distributed
pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="this torch has no gloo"
)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path, monkeypatch):
    """Every test ends without a process and without a file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = _children()
    yield
    assert not list(tmp_path.glob("fxgraph-ranks-*"))
    resource_tracker._resource_tracker._stop()  # Python's own process, beside new interpreters
    assert _children() == before


def _children() -> set[str]:
    """Return the processes that this one started, zombies among them, where the system tells."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if file.read_text(encoding="utf-8").rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(file.parent.name)
    return found


def test_ranks_exchange_tensors_and_return_results_by_rank():
    weights = torch.arange(3.0)

    def sums(rank, factor):
        value = weights * factor * (rank + 1)
        dist.all_reduce(value)
        return {"rank": rank, "value": value, "env": os.environ["WORLD_SIZE"], "threads": torch.get_num_threads()}

    found = run_on_ranks(sums, 3, args=(2,))
    assert [each["rank"] for each in found] == [0, 1, 2]
    assert all(torch.equal(each["value"], torch.tensor([0.0, 12.0, 24.0])) for each in found)
    assert {(each["env"], each["threads"]) for each in found} == {("3", 1)}


def test_a_rank_that_raises_ends_the_run_and_tells_what_the_others_wait_for():
    def one_fails(rank):
        if rank == 1:
            raise KeyError("no shard")
        dist.all_reduce(torch.ones(2))

    began = time.monotonic()
    with pytest.raises(RanksError) as caught:
        run_on_ranks(one_fails, 3, timeout=500)
    assert time.monotonic() - began < 500
    told = str(caught.value)
    assert told.startswith("rank 1 of 3 failed in ")
    assert "one_fails: KeyError: 'no shard'" in told.splitlines()[0]
    line = one_fails.__code__.co_firstlineno
    for rank in (0, 2):
        assert f"rank {rank} waits in all_reduce, called in one_fails (test_processes.py:{line + 3})" in told
    assert "Traceback (most recent call last):" in told
    assert 'raise KeyError("no shard")' in told
    assert 'processes.py", line' in told  # of the test file alone
    assert "pytest_fxgraph/ranks/processes.py" not in told


def test_a_rank_that_waits_for_ever_is_named_with_its_stack():
    def one_leaves(rank):
        if rank:
            dist.barrier()
        return rank

    with pytest.raises(RanksError) as caught:
        run_on_ranks(one_leaves, 3, timeout=2)
    first, *others = str(caught.value).splitlines()
    assert re.fullmatch(r"rank 1, 2 of 3 did not end .*one_leaves within 2 s", first)
    assert any(line.startswith("rank 1 waits in barrier, called in one_leaves (test_processes.py:") for line in others)
    assert "rank 0 has ended" in others
    assert "    dist.barrier()" in others


@pytest.mark.slow
def test_a_rank_that_computes_for_ever_is_named_with_its_line():
    def one_loops(rank):
        while rank == 1:
            pass

    with pytest.raises(RanksError, match=r"rank 1 is in one_loops \(test_processes.py:"):
        run_on_ranks(one_loops, 2, timeout=2)


def test_a_process_that_dies_is_the_cause_and_not_the_lost_connections():
    def one_dies(rank):
        if rank == 1:
            os._exit(7)
        dist.all_reduce(torch.ones(2))

    with pytest.raises(RanksError) as caught:
        run_on_ranks(one_dies, 2)
    told = str(caught.value)
    assert "rank 1 of 2 failed" in told.splitlines()[0]
    assert "the process exited with code 7 before it had a result" in told.splitlines()[0]


def test_a_result_that_cannot_be_sent_is_an_error_of_its_rank():
    with pytest.raises(RanksError, match=r"rank 0 of 2 failed in .*lambda.*(pickle|local object)"):
        run_on_ranks(lambda rank: lambda: rank, 2)


def test_large_results_arrive_whole():
    found = run_on_ranks(lambda rank: torch.full((1 << 20,), float(rank)), 2)
    assert [float(each.sum()) for each in found] == [0.0, float(1 << 20)]


def test_a_rank_inside_a_world_starts_no_world():
    def starts_another(rank):
        run_on_ranks(abs, 2)

    with pytest.raises(RanksError, match="cannot run 2 ranks: this process is already rank 0 of 1"):
        run_on_ranks(starts_another, 1)


@pytest.mark.usefixtures("training_forks")
def test_models_train_after_this_process_has_trained():
    torch.nn.Linear(4, 4)(torch.ones(64, 4)).sum().backward()  # starts the pools that a fork would lose

    def gradient(rank):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        model(torch.full((2, 4), float(rank))).sum().backward()
        dist.all_reduce(model.weight.grad)
        return model.weight.grad

    one, other = run_on_ranks(gradient, 2)
    assert torch.equal(one, other)
    assert torch.equal(one, torch.full((2, 4), 2.0))


def _doubled(rank: int) -> int:
    return 2 * rank + dist.get_world_size()


@pytest.mark.slow
def test_without_a_fork_a_function_of_a_module_runs_in_new_interpreters(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert run_on_ranks(_doubled, 1) == [1]
    with pytest.raises(RanksError, match=r"cannot send .*lambda.* to rank 0: .*at the top of a module"):
        run_on_ranks(lambda rank: rank, 1)


@pytest.mark.slow
def test_where_a_fork_cannot_train_a_function_of_a_module_runs_in_new_interpreters_and_a_closure_in_a_fork(monkeypatch):
    monkeypatch.setattr(processes, "differentiates_in_a_fork", lambda: False)
    assert run_on_ranks(_kind_of_process, 1) == ["SpawnProcess"]
    assert run_on_ranks(lambda rank: _kind_of_process(rank), 1) == ["ForkProcess"]

    def trains(rank):
        raise RuntimeError("Unable to handle autograd's threading in combination with fork-based multiprocessing")

    with pytest.raises(RanksError, match=r"cannot train in a fork .* define build at the top of a module"):
        run_on_ranks(trains, 1)


def _kind_of_process(rank: int) -> str:
    return type(multiprocessing.current_process()).__name__


def test_ranks_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "starts.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "from pytest_fxgraph.ranks.processes import run_on_ranks\n"
        "def loops(rank):\n"
        f"    (pathlib.Path({str(tmp_path)!r}) / f'pid-{{rank}}').write_text(str(os.getpid()))\n"
        "    while True:\n"
        "        time.sleep(0.01)\n"
        "run_on_ranks(loops, 2, timeout=300)\n",
        encoding="utf-8",
    )
    with subprocess.Popen([sys.executable, str(script)], env={**os.environ, "TMPDIR": str(tmp_path)}) as parent:
        files = [tmp_path / "pid-0", tmp_path / "pid-1"]
        _wait_until(lambda: all(file.exists() and file.read_text(encoding="utf-8") for file in files))
        parent.kill()
    _wait_until(lambda: not any(Path("/proc", file.read_text(encoding="utf-8")).exists() for file in files))
    for each in [*files, script]:
        each.unlink()
    for folder in tmp_path.glob("fxgraph-ranks-*"):  # nobody can remove the folder of a killed process
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _wait_until(is_true) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def made_rank(number, tmp_path, *, failure="", answer=None):
    return SimpleNamespace(number=number, failure=failure, answer=answer, stack_file=tmp_path / f"{number}.stack")


@pytest.mark.parametrize(
    ("states", "lines"),
    [
        (
            ["wait", "wait", "end"],
            [
                "rank 0, 1 of 3 did not end step within 5 s",
                "rank 0 ...",
                "rank 1 ...",
                "rank 2 has ended",
                "call each collective on all ranks of its group in one order, or give a longer timeout=",
            ],
        ),
        (
            ["end", "raise", "wait", "die", "end"],
            [  # a death is the cause of lost connections
                "rank 3 of 5 failed in step: it died",
                "rank 1 failed, too: it raised",
                "rank 2 ...",
                "rank 0, 4 has ended",
                "",
                "rank 1:",
                "its traceback",
            ],
        ),
    ],
)
def test_the_message_tells_the_cause_first_and_what_became_of_the_other_ranks(tmp_path, states, lines):
    made = {
        "wait": {},
        "end": {"answer": (True, 1)},
        "raise": {"failure": "it raised", "answer": (False, ("", "its traceback\n"))},
        "die": {"failure": "it died"},
    }
    ranks = [made_rank(number, tmp_path, **made[state]) for number, state in enumerate(states)]

    told = processes._message(ranks, SimpleNamespace(name="step", timeout=5.0)).split("\n")

    assert [re.sub(r"^(rank \d+) (?!of|has|failed).*", r"\1 ...", line) for line in told] == lines


@pytest.mark.parametrize("failure", [processes._NO_TRAINING, "it raised"])
def test_a_fork_that_cannot_train_is_told_with_the_way_around(tmp_path, failure):
    ranks = [made_rank(0, tmp_path, answer=(True, 1)), made_rank(1, tmp_path, failure=f"an error: {failure}")]

    told = processes._message(ranks, SimpleNamespace(name="step", timeout=5.0))

    assert ("define build at the top of a module" in told) is (failure != "it raised")
