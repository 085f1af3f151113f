"""A run of pytest in a process of its own, which records its graphs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import IS_OF_COMMAND

_GRACE = 10  # seconds between the request to end and the end by force
_STDERR = 2
# Written code would change the checkout. A cache of AOT that is warm makes no graphs.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0", IS_OF_COMMAND: "1"}
# pytest's exit statuses after which a recording cannot be compared, with the next step.
_NOT_USABLE = {
    2: "pytest was interrupted, or could not collect the tests; its output names the error",
    3: "pytest met an internal error; its output names it",
    4: "pytest refused its arguments or a conftest.py, or has no pytest-fxgraph of this release; its output tells why",
    5: "pytest found no test; give the tests as arguments",
}

NOT_COLLECTED = 2, 4, 5  # perhaps because the run lacks files or packages


@dataclass(frozen=True)
class ChildRun:
    """The end of a run that recorded."""

    status: int | None  # of pytest; negative: the number of the signal that ended it; None after the timeout
    seconds: float

    @property
    def problem(self) -> str:
        """The reason why the recording cannot be compared; "" for a whole recording, also of failed tests."""
        if self.status in (0, 1):
            return ""
        if self.status is None:
            return f"the run was ended after {self.seconds:.0f} seconds, its time limit; give it more time"
        if self.status < 0:
            return f"the process was ended by {_signal_name(-self.status)}; its output may name the reason"
        return _NOT_USABLE.get(self.status, f"pytest ended with status {self.status}; its output names the reason")


def record_in_child(
    place: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> ChildRun:
    """Run `PYTHON -m pytest --fx-record PLACE ARGUMENTS` in a folder and wait for its end.

    The output of pytest goes to stderr. The run writes no compiled files beside the sources. `environment`
    replaces the environment of this process. `place` is a URL or an absolute path. An interrupt ends the run and its
    children. Raises RecordingError if the interpreter cannot be started.
    """
    command = [python, "-m", "pytest", "--fx-record", place, *arguments]
    given = {**(os.environ if environment is None else environment), **_ENVIRONMENT}
    begin = time.monotonic()
    try:
        # A group of its own: the end of the run is the end of its workers, too.
        process = subprocess.Popen(
            command, cwd=folder, env=given, stdin=subprocess.DEVNULL, stdout=_STDERR, start_new_session=True
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecordingError(f"cannot record with {python} in {folder}: {reason}; name an interpreter") from None
    status: int | None = None
    with _interrupted_when_terminated():
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout)
        finally:
            if process.poll() is None:
                _end(process)
    return ChildRun(status, time.monotonic() - begin)


@contextmanager
def _interrupted_when_terminated() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt until the context ends, because SIGTERM ends Python without cleaning up."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask pytest to end, so that it tears its fixtures down, and then end the whole group."""
    _send(process, signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    finally:
        _send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(OSError):  # it has ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
