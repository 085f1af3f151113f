"""Golden files as the command finds and reads them: on disk, in folders, in git revisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from pytest_fxgraph.command.git_objects import content_of, files_of, looks_like_a_revision, object_of
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.graph_document import GraphDocument
from pytest_fxgraph.document.limits import MOST_BYTES
from pytest_fxgraph.document.location import SUFFIX
from pytest_fxgraph.document.received import is_received
from pytest_fxgraph.errors import GoldenError, GoldenMissingError


@dataclass(frozen=True)
class GoldenFile:
    """One golden file, wherever it is."""

    name: str  # as errors and headings show it
    read: Callable[[], bytes]

    def document(self) -> GraphDocument:
        """Read the golden; what cannot be read is a GoldenError that names it."""
        return decode(self.read(), self.name)


@dataclass(frozen=True)
class GoldenPlace:
    """What a user names on the command line: one golden, or a folder of them."""

    name: str
    is_folder: bool
    files: Mapping[str, GoldenFile]  # by path in the folder; of a single file, by its name


def golden_place(text: str) -> GoldenPlace:
    """Find the goldens at a path or at `revision:path`."""
    if text == os.devnull:  # git names it where a file is new or gone
        return GoldenPlace(text, False, {})
    path = Path(text)
    if path.exists() or not looks_like_a_revision(text):
        return _place_on_disk(path)
    object_id, is_folder = object_of(text)
    ids = files_of(object_id) if is_folder else {PurePosixPath(text.partition(":")[2]).name: object_id}
    files = {
        name: GoldenFile(shown, partial(content_of, ids[name], shown))
        for name in sorted(ids)
        if not is_folder or _is_golden(PurePosixPath(name))
        for shown in [f"{text.rstrip('/')}{'' if text.endswith(':') else '/'}{name}" if is_folder else text]
    }
    return GoldenPlace(text, is_folder, files)


def _place_on_disk(path: Path) -> GoldenPlace:
    if not path.exists():
        raise _missing(path)
    if not path.is_dir():
        return GoldenPlace(str(path), False, {path.name: _file_on_disk(path)})
    found = sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file() and _is_golden(file))
    return GoldenPlace(str(path), True, {file.relative_to(path).as_posix(): _file_on_disk(file) for file in found})


def _is_golden(path: Path | PurePosixPath) -> bool:
    return path.suffix == SUFFIX and not is_received(path)


def _file_on_disk(path: Path) -> GoldenFile:
    return GoldenFile(str(path), partial(read_bytes, path))


def read_bytes(path: Path) -> bytes:
    """Read a file that may lie anywhere; one that cannot be read is a GoldenError that names it."""
    try:
        with path.open("rb") as file:
            # One byte more than is allowed is enough to be refused.
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GoldenError(f"cannot read {path}: {reason}; make it readable, or give another file") from error


def _missing(path: Path) -> GoldenMissingError:
    return GoldenMissingError(f"cannot read {path}: there is no such file or folder; check the path")
