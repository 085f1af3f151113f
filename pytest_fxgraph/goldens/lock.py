"""The lock of a file: runs that write one file do so one after the other.

The lock is on the folder of the file, where the system has locks of folders: nothing is left behind, and a run that is
killed lets go of it. On Windows it is a file that the system removes with the process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # asked for where it is used

# A killed run may leave files of this name. pytest collects none, and `*.fxgraph-tmp` keeps them out of git.
TEMPORARY_SUFFIX = ".fxgraph-tmp"
_LONGEST_WAIT = 60.0  # seconds
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def locked(path: Path, shown: str) -> Iterator[None]:
    """Keep other runs from writing a file. Raises OSError, naming the file as `shown`, after a minute of waiting.

    The lock is not for nested use: a process that waits for itself waits a minute.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock_of(path)
        if lock is not None:
            break
        if time.monotonic() > deadline:
            raise OSError(
                f"cannot write {shown}: another run has held the lock of its folder for a minute; "
                "run this again when that one has ended"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        os.close(lock)


def hold(path: Path) -> int | None:
    """Make a file and hold its lock until the descriptor is closed, or this process ends; None without locks."""
    if fcntl is None:
        path.touch()
        return None
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    _lock_folder(descriptor)
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file; True on a system that cannot tell."""
    if fcntl is None:
        return True
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _lock_folder(descriptor)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock_of(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a file until it is closed; None if another process has the lock."""
    if fcntl is None:
        temporary = getattr(os, "O_TEMPORARY", 0)  # the system removes the file with the last descriptor
        lock = path.with_name(f".{path.name}.lock{TEMPORARY_SUFFIX}")
        try:
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | temporary)
        except FileExistsError:
            return None
        except PermissionError:
            if lock.exists():  # it is being removed
                return None
            raise
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            _lock_folder(descriptor)
            if os.path.samestat(os.fstat(descriptor), os.stat(path.parent)):  # nobody removed the folder meanwhile
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock_folder(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if (
            error.errno not in _WITHOUT_LOCKS
        ):  # file systems of a network may have none: each write is whole all the same
            raise
