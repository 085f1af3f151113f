"""The place of this process among the ranks that torchrun, mpirun or srun launched, and the exchange of their results.

The ranks of one machine exchange files in a temporary folder, because no test need have made a process group, and
because a rank that is killed leaves a file whole or leaves none. A lock on a file tells that its rank is alive.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_fxgraph import settings
from pytest_fxgraph.goldens.lock import hold, is_held

# For each launcher: its command, a variable that it alone sets, the rank, the number of ranks, and of those here.
# A shell in a job of SLURM has the variables of the job; only a step that launched several tasks has its own.
_LAUNCHERS = (
    ("torchrun --nproc-per-node {} -m", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    (
        "mpirun -n {} python -m",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("mpirun -n {} python -m", "PMI_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("srun -n {} python -m", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS"),
)
_LAUNCHES = ("TORCHELASTIC_ERROR_FILE", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID")
_INSIDE = "FXGRAPH_INSIDE_RANK"  # set for processes of a rank's tests: those are no ranks
_FOR_A_START = 60.0  # seconds in which every rank has begun
_LONGEST_WAIT = 600.0  # seconds that the first rank waits for a rank that is alive


class LaunchedRank(NamedTuple):
    """A rank among those that one command launched on this machine."""

    rank: int
    size: int
    launch: str  # the same text for all ranks of one launch, and another for any other launch
    here: int  # the number of ranks on this machine
    command: str  # before "pytest", to launch as many ranks again


LAUNCHED_RANK: pytest.StashKey[LaunchedRank] = pytest.StashKey()


def launched_rank(environ: Mapping[str, str], *, is_worker: bool = False) -> LaunchedRank | None:
    """Return the place of this process; None unless a launcher started several ranks on this machine.

    A worker of pytest-xdist has the place of its controller.
    """
    if _INSIDE in environ and not is_worker:
        return None
    for command, mark, *names in _LAUNCHERS:
        numbers = [environ.get(name, "") for name in names]
        if mark not in environ or not all(number.isdecimal() for number in numbers[:2]):
            continue
        rank, size = int(numbers[0]), int(numbers[1])
        here = int(numbers[2]) if numbers[2].isdecimal() else size
        if size < 2:
            continue
        found = next((environ[name] for name in _LAUNCHES if name in environ), str(os.getppid()))
        # The file of errors lies in a folder of the rank, in a folder of the launch.
        launch = str(Path(found).parents[1]) if mark == "TORCHELASTIC_RUN_ID" and os.sep in found else found
        step, restart = environ.get("SLURM_STEP_ID", ""), environ.get("TORCHELASTIC_RESTART_COUNT", "")
        return LaunchedRank(rank, size, f"{launch} {step} {restart}", here, command.format(size))
    return None


def gathering_of(config: pytest.Config) -> Gathering | None:
    """Begin the exchange of results with the other ranks; None without a launch, and for ranks on several machines.

    Ranks on several machines compare, each for itself. Raises UsageError if they are to write, too.
    """
    place = config.stash.get(LAUNCHED_RANK, None)
    if place is None:
        return None
    if place.here == place.size:
        return Gathering(place)
    if settings.writes_about_goldens(config):
        raise pytest.UsageError(
            f"cannot gather the goldens of {place.size} ranks: {place.here} of them run on this machine, and goldens "
            "are gathered on one; launch pytest on one machine, with as many ranks on it, or compare only"
        )
    return None


class Gathering:
    """The exchange at the end of a run: each rank hands its results to rank 0."""

    def __init__(self, place: LaunchedRank) -> None:
        """Begin: the other ranks see from now on that this rank is alive."""
        os.environ[_INSIDE] = str(place.rank)
        self.rank, self.size = place.rank, place.size
        user = os.getuid() if hasattr(os, "getuid") else ""
        name = hashlib.sha256(f"{user} {place.launch}".encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir(), f"fxgraph-ranks-{name}")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._began = time.monotonic()
        self._lock = hold(self._folder / f"rank-{self.rank}")

    def deliver(self, results: Any) -> None:
        """Hand the results to rank 0, whole or not at all."""
        whole = self._results_of(self.rank)
        part = whole.with_suffix(".part")
        part.write_text(json.dumps(results), encoding="utf-8")
        os.replace(part, whole)
        self._leave()

    def gather(self) -> tuple[dict[int, Any], list[int]]:
        """Wait for the other ranks; return their results, and the ranks that ended or hang without any."""
        found, lost = {}, []
        for rank in range(1, self.size):
            results = self._wait_for(rank)
            if results is None:
                lost.append(rank)
            else:
                found[rank] = json.loads(results)
        self._leave()
        shutil.rmtree(self._folder, ignore_errors=True)
        return found, lost

    def _wait_for(self, rank: int) -> str | None:
        file, began = self._folder / f"rank-{rank}", time.monotonic()
        while True:
            is_alive = is_held(file) if file.exists() else time.monotonic() - self._began < _FOR_A_START
            if self._results_of(rank).exists():  # looked for after the lock, because a rank delivers before it leaves
                return self._results_of(rank).read_text(encoding="utf-8")
            if not is_alive or time.monotonic() - began > _LONGEST_WAIT:
                return None
            time.sleep(0.02)

    def _results_of(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.json"

    def _leave(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        os.environ.pop(_INSIDE, None)
