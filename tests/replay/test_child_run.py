from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.child_run import ChildRun, record_in_child

SUITE = """
    import torch, torch.fx

    def test_a():
        torch.fx.symbolic_trace(lambda x: x + 1)

    def test_b():
        assert False
"""


def write(folder, suite):
    (folder / "test_it.py").write_text(textwrap.dedent(suite))
    return folder


def test_a_run_with_failed_tests_is_a_whole_recording(tmp_path):
    folder = write(tmp_path, SUITE)

    run = record_in_child(str(tmp_path / "kept"), ["-q", "-p", "no:cacheprovider"], folder=folder)

    assert (run.status, run.problem) == (1, "")
    recording = Recording.read(RecordingStore(str(tmp_path / "kept")))
    assert {test: found.outcome for test, found in recording.tests.items()} == {
        "test_it.py::test_a": "passed",
        "test_it.py::test_b": "failed",
    }
    assert sorted(path.name for path in folder.iterdir()) == ["kept", "test_it.py"]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("suite", "arguments", "status", "words"),
    [
        ("import no_such_module", [], 2, "could not collect the tests"),
        ("def test_a(): pass", ["--no-such-option"], 4, "refused its arguments"),
        ("", [], 5, "found no test; give the tests as arguments"),
        ("import os\ndef test_a(): os.abort()", [], -signal.SIGABRT, "ended by SIGABRT"),
    ],
)
def test_a_run_without_a_whole_recording_says_why(tmp_path, suite, arguments, status, words):
    run = record_in_child(str(tmp_path / "kept"), ["-q", *arguments], folder=write(tmp_path, suite))

    assert run.status == status
    assert words in run.problem


def test_unknown_statuses_are_named():
    assert "status 77" in ChildRun(77, 0.0).problem
    assert "signal 77" in ChildRun(-77, 0.0).problem


class Process:
    """A process that ends after some waits."""

    pid = 4242

    def __init__(self, waits):
        self.waits, self.limits = waits, []

    def __call__(self, command, **options):
        self.command, self.options = command, options
        return self

    def wait(self, timeout=None):
        self.limits.append(timeout)
        if timeout is not None and len(self.limits) <= self.waits:
            raise subprocess.TimeoutExpired(self.command, timeout)
        return 0

    def poll(self):
        return 0 if len(self.limits) > self.waits else None


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Return a function that plays a run, and returns its end, the process and the signals that it got."""

    def play(waits=0, **options):
        process, sent = Process(waits), []
        monkeypatch.setattr(subprocess, "Popen", process)
        monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append((pid, number)))
        return record_in_child("place", ["-q"], folder=tmp_path, **options), process, sent

    return play


def test_a_run_records_without_files_beside_the_sources(play, tmp_path):
    run, process, sent = play(python="env/python", environment={"WORD": "given", "PYTHONDONTWRITEBYTECODE": ""})

    assert (run.status, run.problem, sent) == (0, "", [])
    assert process.command == ["env/python", "-m", "pytest", "--fx-record", "place", "-q"]
    assert process.options["cwd"] == tmp_path
    assert process.options["start_new_session"] is True
    assert process.options["env"] == {
        "WORD": "given",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "FXGRAPH_IS_OF_COMMAND": "1",
    }
    assert play()[1].options["env"].items() >= {**os.environ, "FXGRAPH_IS_OF_COMMAND": "1"}.items()


@pytest.mark.parametrize("waits", [1, 2])
def test_a_run_beyond_its_time_is_asked_to_end_and_then_killed_with_its_children(play, waits):
    run, process, sent = play(waits, timeout=5)

    assert run.status is None
    assert run.problem == "the run was ended after 0 seconds, its time limit; give it more time"
    assert sent == [(4242, signal.SIGINT), (4242, signal.SIGKILL)]
    assert process.limits == [5, 10, None]


def test_a_thread_other_than_the_main_one_leaves_the_signals_alone(play):
    before = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor() as pool:
        run, _, _ = pool.submit(play).result()

    assert run.status == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_to_end_is_an_interrupt_while_the_run_goes_on(play, monkeypatch):
    def wait(self, timeout=None):
        self.limits.append(timeout)
        if len(self.limits) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Process, "wait", wait)
    monkeypatch.setattr(Process, "poll", lambda self: None)
    with pytest.raises(KeyboardInterrupt):
        play()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, ""),
        (1, ""),
        (2, "pytest was interrupted, or could not collect the tests; its output names the error"),
        (3, "pytest met an internal error; its output names it"),
        (5, "pytest found no test; give the tests as arguments"),
        (6, "pytest ended with status 6; its output names the reason"),
        (-9, "the process was ended by SIGKILL; its output may name the reason"),
    ],
)
def test_a_status_says_whether_the_recording_is_whole(status, words):
    assert ChildRun(status, 1.0).problem == words


@pytest.mark.slow
def test_a_run_beyond_its_time_is_ended(tmp_path):
    folder = write(tmp_path, "import time\ndef test_a(): time.sleep(600)")

    run = record_in_child(str(tmp_path / "kept"), ["-q"], folder=folder, timeout=5)

    assert run.status is None
    assert "its time limit; give it more time" in run.problem


def test_an_interpreter_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(RecordingError, match=r"cannot record with /no/python in .*: no such file or directory"):
        record_in_child(str(tmp_path / "kept"), [], folder=tmp_path, python="/no/python")


@pytest.mark.slow
def test_a_thread_other_than_the_main_one_can_run(tmp_path):
    write(tmp_path, "def test_a(): pass")
    with ThreadPoolExecutor() as pool:
        run = pool.submit(record_in_child, str(tmp_path / "kept"), ["-q"], folder=tmp_path).result()

    assert run.problem == ""


@pytest.mark.slow
def test_the_environment_replaces_the_own(tmp_path):
    folder = write(tmp_path, "import os\ndef test_a(): assert os.environ['WORD'] == 'given'")

    run = record_in_child(str(tmp_path / "kept"), ["-q"], folder=folder, environment={**os.environ, "WORD": "given"})

    assert run.status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_run_and_its_children(tmp_path, number):
    child = f"import subprocess, sys\ndef test_a():\n    subprocess.run([{sys.executable!r}, '-c', {_WAITS!r}])"
    folder = write(tmp_path, child)
    # The children of a shell's background job ignore SIGINT.
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += f"from pathlib import Path; from {record_in_child.__module__} import record_in_child as run; "
    command += f"run({str(tmp_path / 'kept')!r}, ['-q'], folder=Path({str(folder)!r}))"
    process = subprocess.Popen([sys.executable, "-c", command], stderr=subprocess.DEVNULL)
    while not (folder / "began").exists():
        time.sleep(0.05)
        assert process.poll() is None

    process.send_signal(number)

    assert process.wait(30) != 0
    grandchild = int((folder / "began").read_text())
    for _ in range(100):
        if not _is_alive(grandchild):
            break
        time.sleep(0.1)
    assert not _is_alive(grandchild)


# Written under another name first, because an empty file would be read.
_WAITS = "import os, time; open('begins', 'w').write(str(os.getpid())); os.rename('begins', 'began'); time.sleep(600)"


def _is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
