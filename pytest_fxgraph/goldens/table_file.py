"""The file of a table: rows are read from it, merged into it and received beside it, one run at a time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_fxgraph.errors import GoldenError
from pytest_fxgraph.goldens.files import Received, read_received, received_path, write_received
from pytest_fxgraph.goldens.store import TEMPORARY_SUFFIX, GoldenStore
from pytest_fxgraph.goldens.table_rows import Row, decode_table, encode_table

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # asked for where it is used

_LONGEST_WAIT = 60.0  # seconds for another run that writes the same table


@dataclass(frozen=True)
class TableFile:
    """A table, or a variant of it, below the golden folder."""

    store: GoldenStore
    place: PurePosixPath
    shown: str  # as messages name it

    def rows(self) -> dict[str, Row]:
        """Return the rows by name; none where there is no file. Raises GoldenError if it cannot be read."""
        return decode_table(self.store.read(self.place), self.shown) if self.store.exists(self.place) else {}

    def merge(self, rows: Iterable[Row], remove: Iterable[str] = ()) -> None:
        """Write rows beside those that others wrote since this run began, and remove some.

        Raises GoldenError or OSError if that fails; the file that was there before is then whole.
        """
        with self._locked():
            found = self.rows()
            found.update({row.name: row for row in rows})
            for name in remove:
                found.pop(name, None)
            if found:
                self.store.write(self.place, encode_table(found.values()))
            else:
                self.store.remove(self.place)

    def receive(self, rows: Mapping[str, Row | None]) -> PurePosixPath | None:
        """Keep rows that differ beside the table; None for a row that matches, whose received one goes.

        Rows that an earlier run received stay, if the table is the one that they were compared with. Returns the
        received file, None if nothing is left of it. Raises GoldenError or OSError if it cannot be written.
        """
        received = received_path(self.place)
        if not any(rows.values()) and not self.store.exists(received):
            return None
        with self._locked():
            current = self.rows()
            digest = self.store.digest(self.place)
            found = {**current, **self._received_earlier(received, digest)}
            for name, row in rows.items():
                if row is not None:
                    found[name] = row
                elif name in current:
                    found[name] = current[name]
                else:
                    found.pop(name, None)
            if found == current:
                self.store.remove(received)
                return None
            self.store.write(received, write_received(Received(encode_table(found.values()), digest)))
        return received

    def _received_earlier(self, received: PurePosixPath, digest: str | None) -> dict[str, Row]:
        try:
            earlier = read_received(self.store.read(received), str(received))
            return decode_table(earlier.text, str(received)) if earlier.compared_with == digest else {}
        except GoldenError:  # there is none, or somebody edited it
            return {}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other runs from writing the table; a run that is killed lets go of it."""
        path = self.store.path(self.place)
        deadline = time.monotonic() + _LONGEST_WAIT
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock_of(path)
            if lock is not None:
                break
            if time.monotonic() > deadline:
                raise OSError(
                    f"cannot write {self.shown}: another run has held the lock of its folder for a minute; "
                    "run this again when that one has ended"
                )
            time.sleep(0.02)
        try:
            yield
        finally:
            os.close(lock)


def _lock_of(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a table until it is closed; None if another process has it."""
    if fcntl is None:
        temporary = getattr(os, "O_TEMPORARY", 0)  # removed with the last descriptor, also of a process that is killed
        with contextlib.suppress(FileExistsError, PermissionError):
            lock = path.with_name(f".{path.name}.lock{TEMPORARY_SUFFIX}")
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | temporary)
        return None
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path.parent)):  # nobody removed the folder meanwhile
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
