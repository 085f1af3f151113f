"""The lock of a file: one run waits for another, and no longer than a minute."""

from __future__ import annotations

import errno
import os
import sys
from types import SimpleNamespace

import pytest

from pytest_fxgraph.goldens import lock
from pytest_fxgraph.goldens.lock import hold, is_held, locked


@pytest.fixture(params=["folders", "files"])
def path(request, tmp_path, monkeypatch):
    """A file whose lock is on its folder, or a file beside it, as on Windows."""
    if request.param == "folders" and lock.fcntl is None:
        pytest.skip("there are no locks of folders")
    if request.param == "files":
        monkeypatch.setattr(lock, "fcntl", None)
        # Without O_TEMPORARY nobody removes the lock's file; its holder does here.
        closed = os.close
        monkeypatch.setattr(os, "close", lambda held: (closed(held), *map(os.unlink, tmp_path.glob("*/.*.lock*"))))
    return tmp_path / "golden" / "test_a.yaml"


def hurry(monkeypatch):
    """Let a minute pass with each sleep; return the sleeps."""
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += 60

    monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return slept


def test_a_lock_makes_the_folder_and_is_free_again_after_its_use(path):
    for _ in range(2):
        with locked(path, "test_a.yaml"):
            assert path.parent.is_dir()

    assert [*path.parent.iterdir()] == []


def test_a_run_that_waits_for_more_than_a_minute_gives_up(path, monkeypatch):
    slept = hurry(monkeypatch)
    words = (
        "cannot write golden/test_a.yaml: another run has held the lock of its folder for a minute; "
        "run this again when that one has ended"
    )

    with locked(path, "x"), pytest.raises(OSError, match=words), locked(path, "golden/test_a.yaml"):
        raise AssertionError("two runs hold one lock")

    assert slept == [0.02, 0.02]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of folders")
def test_a_file_system_without_locks_is_written_all_the_same(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, "no locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)

    with locked(tmp_path / "a.yaml", "a.yaml"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of folders")
def test_another_failure_of_the_lock_is_told_and_leaves_no_file_open(tmp_path, monkeypatch):
    opened, closed = [], []
    real_close = os.close

    def refuse(descriptor, _):
        opened.append(descriptor)
        raise OSError(errno.EIO, "input/output error")

    def close(descriptor):
        closed.append(descriptor)
        real_close(descriptor)

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    monkeypatch.setattr(os, "close", close)

    with pytest.raises(OSError, match="input/output error"), locked(tmp_path / "a.yaml", "a.yaml"):
        raise AssertionError("there is no lock")

    assert opened == closed != []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_lock_that_windows_is_removing_is_waited_for_and_a_folder_without_permission_is_not(
    tmp_path, monkeypatch, is_there
):
    def refuse(*_):
        raise PermissionError(13, "permission denied")

    if is_there:
        (tmp_path / ".a.yaml.lock.fxgraph-tmp").touch()
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(os, "open", refuse)
    slept = hurry(monkeypatch)

    words = "held the lock" if is_there else "permission denied"
    with pytest.raises(OSError, match=words), locked(tmp_path / "a.yaml", "a.yaml"):
        raise AssertionError("there is no lock")

    assert len(slept) == 2 * is_there


@pytest.mark.skipif(lock.fcntl is None, reason="this system has no locks of files")
def test_a_held_file_is_free_once_its_descriptor_is_closed(tmp_path):
    held = hold(tmp_path / "rank-1")
    assert is_held(tmp_path / "rank-1")
    os.close(held)
    assert not is_held(tmp_path / "rank-1")


def test_a_system_without_locks_makes_the_file_and_takes_its_process_for_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)

    assert hold(tmp_path / "rank-1") is None
    assert (tmp_path / "rank-1").exists()
    assert is_held(tmp_path / "rank-1")
