"""The place of a recording: a folder, or a URL that fsspec knows. Every file is written whole or not at all."""

from __future__ import annotations

import importlib
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.goldens.store import replace_whole

_LOCAL = "file://"
# The details of a listed file have its time under a name of the file system's own.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
# Filesystems without folders: `makedirs` would create a bucket.
_WITHOUT_FOLDERS = frozenset({"s3", "gs", "gcs", "abfs", "az", "oci", "oss"})


class StoredFile(NamedTuple):
    """A file as its folder lists it."""

    path: str  # relative to the place, with slashes
    size: int  # bytes
    modified: float  # seconds since 1970


class Place(ABC):
    """Files below one folder, named by paths with slashes. All methods raise RecordingError."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no file."""
        with self._told("read", path), suppress(FileNotFoundError):
            return self._read(path)
        return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file, or replace it, in one step."""
        with self._told("write", path):
            self._write(path, content)

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder, sorted by path."""
        with self._told("list", folder):
            return sorted(each for each in self._entries(folder) if isinstance(each, StoredFile))

    def folders(self) -> list[Place]:
        """Return the folders at this place, sorted by name."""
        with self._told("list", ""):
            return [self._below(name) for name in sorted(each for each in self._entries("") if isinstance(each, str))]

    def remove(self, path: str) -> None:
        """Remove a file. A file that is gone is no error."""
        with self._told("remove", path), suppress(FileNotFoundError):
            self._remove(path)

    def shown_path(self, path: str) -> str:
        """Return the whole path of a file, as messages print it."""
        return f"{self.shown.rstrip('/')}/{path}" if path else self.shown

    @contextmanager
    def _told(self, action: str, path: str) -> Iterator[None]:
        # Any exception: a client of a network raises classes of its own.
        try:
            yield
        except RecordingError:
            raise
        except Exception as error:
            reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
            raise RecordingError(
                f"cannot {action} {self.shown_path(path)}: {reason[:1].lower()}{reason[1:]}; {self._next_step()}"
            ) from error

    @abstractmethod
    def _read(self, path: str) -> bytes: ...

    @abstractmethod
    def _write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def _entries(self, folder: str) -> Iterator[StoredFile | str]: ...

    @abstractmethod
    def _remove(self, path: str) -> None: ...

    @abstractmethod
    def _below(self, name: str) -> Place: ...

    @abstractmethod
    def _next_step(self) -> str: ...


class Folder(Place):
    """A folder of this machine."""

    def __init__(self, folder: Path, shown: str) -> None:
        super().__init__(shown)
        self._root = folder.absolute()  # a test may change the working directory

    def _read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def _write(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(target, content, is_synced=False)

    def append(self, path: str, content: bytes) -> None:
        """Append to a file that is there. Nothing is appended if that fails."""
        with self._told("write", path):
            # No O_CREAT: an index that was removed meanwhile would come back without its first lines.
            file = os.open(self._root / path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
            try:
                size = os.fstat(file).st_size
                try:
                    written = os.write(file, content)
                    while written < len(content):  # the system may take a part, for example before the disk is full
                        written += os.write(file, content[written:])
                except BaseException:
                    os.ftruncate(file, size)
                    raise
            finally:
                os.close(file)

    def renew(self, path: str) -> None:
        """Give an unchanged file the time of now, because `fxgraph store prune` keeps new files."""
        with self._told("write", path):
            os.utime(self._root / path)

    def _entries(self, folder: str) -> Iterator[StoredFile | str]:
        try:
            entries = [*os.scandir(self._root / folder)]
        except FileNotFoundError:
            return
        for each in entries:
            if each.is_dir():
                yield each.name
                continue
            status = each.stat()
            yield StoredFile(f"{folder}/{each.name}".lstrip("/"), status.st_size, status.st_mtime)

    def _remove(self, path: str) -> None:
        (self._root / path).unlink()

    def _below(self, name: str) -> Place:
        return Folder(self._root / name, self.shown_path(name))

    def _next_step(self) -> str:
        return "name another folder, make room or give permission"


class Remote(Place):
    """A place that fsspec reaches, for example a bucket of S3. A file is written by one request."""

    def __init__(self, files: Any, root: str, shown: str) -> None:
        super().__init__(shown)
        self._files = files
        self._root = root.rstrip("/")

    def _read(self, path: str) -> bytes:
        return bytes(self._files.cat_file(f"{self._root}/{path}"))

    def _write(self, path: str, content: bytes) -> None:
        target = f"{self._root}/{path}"
        try:
            self._files.pipe_file(target, content)
        except FileNotFoundError:
            protocol = self._files.protocol
            if not _WITHOUT_FOLDERS.isdisjoint((protocol,) if isinstance(protocol, str) else protocol):
                raise
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(target, content)

    def _entries(self, folder: str) -> Iterator[StoredFile | str]:
        self._files.invalidate_cache()  # other machines write here
        try:
            entries: list[Mapping[str, Any]] = self._files.ls(f"{self._root}/{folder}".rstrip("/"), detail=True)
        except FileNotFoundError:
            return
        for each in entries:
            name = each["name"].rstrip("/").rpartition("/")[2]
            if each["type"] == "directory":
                yield name
            elif each["name"].strip("/") != f"{self._root}/{folder}".strip("/"):  # S3 lists an object as its folder
                yield StoredFile(f"{folder}/{name}".lstrip("/"), each["size"] or 0, _time_of(each))

    def _remove(self, path: str) -> None:
        self._files.rm_file(f"{self._root}/{path}")

    def _below(self, name: str) -> Place:
        return Remote(self._files, f"{self._root}/{name}", self.shown_path(name))

    def _next_step(self) -> str:
        return "check the address, the connection and your rights there"


def place_at(place: str) -> Place:
    """Return the folder or URL of a text. Raises RecordingError if no file system is known for the URL."""
    if not place:
        raise RecordingError("cannot use '' as the place of a recording: name a folder or a URL")
    if place.startswith(_LOCAL):
        return Folder(Path(place.removeprefix(_LOCAL)), place)
    if "://" not in place:
        return Folder(Path(place), place)
    shown = re.sub(r"//[^/@]*@", "//", place)  # a password is not for the log of a build
    try:
        files, root = importlib.import_module("fsspec.core").url_to_fs(place)
    except Exception as error:
        is_s3 = place.startswith("s3")
        remedy = 'pip install "pytest-fxgraph[s3]"' if is_s3 else "install the library of its file system"
        raise RecordingError(
            f"cannot use {shown} as the place of a recording: {error}; "
            f"{remedy if isinstance(error, ImportError) else 'name a folder or a URL that fsspec knows'}"
        ) from error
    return Remote(files, root, shown)


def _time_of(details: Mapping[str, Any]) -> float:
    """Return the time of a listed file. A file without a known time counts as new, so that nobody removes it."""
    found = next((details[name] for name in _TIMES if details.get(name) is not None), None)
    if isinstance(found, str):
        found = datetime.fromisoformat(found.replace("Z", "+00:00"))
    if isinstance(found, datetime):
        return found.timestamp()
    return float(found) if found is not None else time.time()
