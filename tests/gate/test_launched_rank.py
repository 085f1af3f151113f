"""Ranks that torchrun, mpirun or srun launched: who is one, and how results reach rank 0."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK, Gathering, LaunchedRank, gathering_of, launched_rank
from pytest_fxgraph.goldens.lock import is_held

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/none_y/attempt_0/1/error.json",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (TORCHRUN, (1, 2, "torchrun --nproc-per-node 2 -m")),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 4, "mpirun -n 4 python -m")),
        ({"PMI_RANK": "0", "PMI_SIZE": "3"}, (0, 3, "mpirun -n 3 python -m")),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2, "srun -n 2 python -m")),
        ({**TORCHRUN, "WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "3"}, (0, 3, "mpirun -n 3 python -m")),
    ],
)
def test_a_launcher_tells_the_rank_and_its_command(environ, place):
    found = launched_rank(environ)
    assert (found.rank, found.size, found.command) == place


@pytest.mark.parametrize(("local", "here"), [("2", 2), ("", 4), ("two", 4), (None, 4)])
def test_the_number_of_ranks_on_this_machine_is_all_unless_the_launcher_tells_it(local, here):
    environ = {**TORCHRUN, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": local}

    found = launched_rank({name: value for name, value in environ.items() if value is not None})

    assert (found.size, found.here) == (4, here)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "1", "WORLD_SIZE": "2"},  # set by hand: nobody launched a second process
        {**TORCHRUN, "WORLD_SIZE": "1"},
        {**TORCHRUN, "WORLD_SIZE": ""},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},  # a shell in a job, not a step of it
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {**TORCHRUN, "FXGRAPH_INSIDE_RANK": "0"},  # started by a test of a rank
    ],
)
def test_a_process_that_runs_alone_is_no_rank(environ):
    assert launched_rank(environ) is None


def test_ranks_of_one_launch_share_a_name_and_those_of_another_do_not():
    other = {**TORCHRUN, "RANK": "0", "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/none_y/attempt_0/0/error.json"}
    later = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/none_z/attempt_0/1/error.json"}
    assert launched_rank(TORCHRUN).launch == launched_rank(other).launch != launched_rank(later).launch


@pytest.mark.slow
def test_ranks_on_several_machines_compare_and_are_refused_where_they_would_write(pytester, monkeypatch):
    for name, value in {**TORCHRUN, "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FXGRAPH_INSIDE_RANK", raising=False)
    pytester.mkdir("golden")
    pytester.makepyfile("def test_nothing():\n    pass")
    assert pytester.runpytest_subprocess().ret == pytest.ExitCode.OK
    result = pytester.runpytest_subprocess("--fx-update-golden")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot gather the goldens of 4 ranks: 2 of them run on this machine*"])


def test_ranks_of_a_suite_without_goldens_wait_for_no_other_rank(pytester, monkeypatch):
    for name, value in {**TORCHRUN, "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FXGRAPH_INSIDE_RANK", raising=False)
    pytester.makepyfile(
        "import sys\n\ndef test_nothing():\n    assert 'pytest_fxgraph.gate.session' not in sys.modules"
    )
    assert pytester.runpytest_subprocess(timeout=30).ret == pytest.ExitCode.OK


@pytest.fixture
def launched(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("FXGRAPH_INSIDE_RANK", raising=False)
    return lambda rank, size=3: Gathering(LaunchedRank(rank, size, "launch", size, ""))


@pytest.mark.parametrize(
    ("here", "options", "gathers"),
    [(2, {}, True), (2, {"fx_update_golden": True}, True), (1, {}, False), (None, {"fx_update_golden": True}, False)],
)
def test_the_ranks_of_one_machine_gather_and_others_only_compare(launched, here, options, gathers):
    stash = pytest.Stash()
    if here is not None:
        stash[LAUNCHED_RANK] = LaunchedRank(1, 2, "launch", here, "")

    found = gathering_of(SimpleNamespace(stash=stash, getoption=options.get))

    assert (found is not None) is gathers
    if found is not None:
        assert (found.rank, found.size) == (1, 2)
        found.deliver([])


def test_ranks_on_several_machines_are_refused_where_they_would_write():
    stash = pytest.Stash()
    stash[LAUNCHED_RANK] = LaunchedRank(1, 4, "launch", 2, "")

    with pytest.raises(pytest.UsageError, match="cannot gather the goldens of 4 ranks: 2 of them run on this machine"):
        gathering_of(SimpleNamespace(stash=stash, getoption={"fx_update_golden": True}.get))


def test_results_of_all_ranks_reach_rank_0_and_no_file_stays(launched, tmp_path):
    first, others = launched(0), [launched(1), launched(2)]
    assert os.environ["FXGRAPH_INSIDE_RANK"]
    (folder,) = tmp_path.iterdir()
    for each in others:
        assert is_held(folder / f"rank-{each.rank}")
        each.deliver({"rank": each.rank})
        assert not is_held(folder / f"rank-{each.rank}")
    assert first.gather() == ({1: {"rank": 1}, 2: {"rank": 2}}, [])
    assert not list(tmp_path.iterdir())
    assert "FXGRAPH_INSIDE_RANK" not in os.environ


def test_rank_0_waits_for_a_rank_that_is_alive(launched):
    first, other = launched(0, 2), launched(1, 2)
    late = threading.Timer(0.3, other.deliver, ["late"])
    late.start()
    assert first.gather() == ({1: "late"}, [])


def test_a_rank_that_ended_without_results_is_told(launched):
    first, dead, other = launched(0), launched(1), launched(2)
    os.close(dead._lock)  # as the system does at the end of a process
    other.deliver([])
    assert first.gather() == ({2: []}, [1])


def test_a_launch_begins_anew_with_each_attempt():
    again = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x/none_y/attempt_1/1/error.json"}

    assert launched_rank(TORCHRUN).launch != launched_rank(again).launch


def test_users_do_not_share_a_folder_and_a_system_without_users_has_one(launched, tmp_path, monkeypatch):
    for user in (1, 2):
        monkeypatch.setattr(os, "getuid", lambda user=user: user, raising=False)
        launched(0)
    monkeypatch.delattr(os, "getuid")
    launched(0)

    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_somebody_removed_is_no_error(launched, tmp_path):
    first = launched(0, 1)
    shutil.rmtree(next(tmp_path.iterdir()))

    assert first.gather() == ({}, [])
