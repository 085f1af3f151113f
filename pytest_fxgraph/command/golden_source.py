"""Goldens, `.pt2` and `.onnx` files that the command finds and reads: on disk, in folders, in git revisions."""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath

from pytest_fxgraph.command.archive_text import text_of_archive
from pytest_fxgraph.command.project import from_rootdir
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import MOST_BYTES, GraphDocument
from pytest_fxgraph.errors import GoldenError, GoldenMissingError
from pytest_fxgraph.goldens.archive_entries import is_model_path
from pytest_fxgraph.goldens.files import SUFFIX, is_received
from pytest_fxgraph.goldens.table_rows import Row, rows_if_table


def looks_like_a_revision(text: str) -> bool:
    """Return whether a text has the form `revision:path`. `C:\\x` does not count."""
    revision, colon, _ = text.partition(":")
    return bool(colon) and len(revision) != 1 and not text.startswith("-")


def object_of(text: str) -> tuple[str, bool]:
    """Return the object id of `revision:path`, and whether it is a folder.

    Raises GoldenMissingError if git does not know it, GoldenError if it is neither file nor folder or git cannot run.
    """
    found = _git("rev-parse", "--verify", "--quiet", text)
    if found is None:
        raise GoldenMissingError(
            f"cannot read {text}: there is no such file, and git knows no such revision and path here; check it with "
            "`git log`, and write the path from the top of the repository, or with ./ from where you are"
        )
    object_id = found.decode().strip()
    kind = (_git("cat-file", "-t", object_id) or b"").decode().strip()
    if kind not in ("blob", "tree"):
        raise GoldenError(f"cannot read {text}: it is a {kind or 'thing unknown to git'}; name a file or folder")
    return object_id, kind == "tree"


def content_of(object_id: str, name: str) -> bytes:
    """Return the content of a file in git. Raises GoldenError with `name` if git does not return the content."""
    # `git show` is no choice, because it would apply a textconv of ours.
    content = _git("cat-file", "blob", object_id)
    if content is None:
        raise GoldenError(f"cannot read {name}: git does not give its content; try `git fsck`")
    return content


def files_of(tree_id: str) -> dict[str, str]:
    """Return the ids of all files below a folder by their path in it."""
    listing = _git("ls-tree", "-r", "-z", "--full-tree", tree_id) or b""
    files = {}
    for entry in listing.split(b"\0"):
        facts, _, path = entry.partition(b"\t")
        if facts.split()[1:2] == [b"blob"]:
            files[path.decode("utf-8", "surrogateescape")] = facts.split()[2].decode()
    return files


def _git(*arguments: str) -> bytes | None:
    """Return the output of git, None if git fails."""
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GoldenError(f"cannot ask git: {reason}; install git, or give files instead of revisions") from None
    return result.stdout if result.returncode == 0 else None


@dataclass(frozen=True)
class GoldenFile:
    """One golden file at any place."""

    name: str  # shown in errors and headings
    read: Callable[[], bytes]

    def document(self) -> GraphDocument:
        """Read the golden. Raises GoldenError with the golden's name if it cannot be read."""
        return decode(self.read(), self.name)

    def rows(self) -> Mapping[str, Row] | None:
        """Read a table, or return None for a graph. Raises GoldenError with the file's name if it cannot be read."""
        return rows_if_table(self.read(), self.name)


@dataclass(frozen=True)
class GoldenPlace:
    """A place on the command line: one golden, or a folder of goldens."""

    name: str
    is_folder: bool
    files: Mapping[str, GoldenFile]  # path in the folder, or the name of a single file, to the golden


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option `--trust` to a parser."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="read .pt2 files also if torch executes a part of them, as pickles of objects; they can do all you can do",
    )


def golden_place(text: str, *, trusts: bool = False) -> GoldenPlace:
    """Return the goldens at a path or at `revision:path`. Raises GoldenMissingError for an empty place.

    A `.pt2` or `.onnx` file is a golden of its program. Without `trusts`, one that torch executes is an ArchiveError.
    """
    if text == os.devnull:  # git names the null device for a new or removed file
        return GoldenPlace(text, False, {})
    path = Path(text)
    if path.exists() or not looks_like_a_revision(text):
        return _place_on_disk(from_rootdir(path), trusts)
    object_id, is_folder = object_of(text)
    ids = files_of(object_id) if is_folder else {PurePosixPath(text.partition(":")[2]).name: object_id}
    files = {
        name: _golden_file(shown, partial(content_of, ids[name], shown), trusts)
        for name in sorted(ids)
        if not is_folder or _is_golden(PurePosixPath(name))
        for shown in [f"{text.rstrip('/')}{'' if text.endswith(':') else '/'}{name}" if is_folder else text]
    }
    return GoldenPlace(text, is_folder, files)


def _golden_file(name: str, read: Callable[[], bytes], trusts: bool, *, is_on_disk: bool = False) -> GoldenFile:
    """Return a golden, or a `.pt2` or `.onnx` file as the golden of its program. The program is loaded once."""
    if is_model_path(name):
        read = cache(partial(text_of_archive, name, None if is_on_disk else read, trusts=trusts))
    return GoldenFile(name, read)


def _place_on_disk(path: Path, trusts: bool) -> GoldenPlace:
    if not path.exists():
        raise _missing(path)
    if not path.is_dir():
        golden = _golden_file(str(path), partial(read_bytes, path), trusts, is_on_disk=True)
        return GoldenPlace(str(path), False, {path.name: golden})
    found = sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file() and _is_golden(file))
    files = {file.relative_to(path).as_posix(): GoldenFile(str(file), partial(read_bytes, file)) for file in found}
    return GoldenPlace(str(path), True, files)


def _is_golden(path: Path | PurePosixPath) -> bool:
    return path.suffix == SUFFIX and not is_received(path)


def read_bytes(path: Path) -> bytes:
    """Read a file at any path, at most one byte more than the limit.

    Raises GoldenError if the file cannot be read, or if it is a FIFO, device or socket, or a link to one.
    """
    try:
        _refuse_other_than_files(path, os.stat(path).st_mode)
        # The file may have become a FIFO since. With O_NONBLOCK, the open does not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            _refuse_other_than_files(path, os.fstat(descriptor).st_mode)
            # One byte above the limit is enough to refuse the file.
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GoldenError(f"cannot read {path}: {reason}; make it readable, or give another file") from error


def _refuse_other_than_files(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a directory")
    if not stat.S_ISREG(mode):
        raise GoldenError(
            f"cannot read {path}: it is a pipe, device or socket; write what it holds to a file, and give that"
        )


def _missing(path: Path) -> GoldenMissingError:
    return GoldenMissingError(f"cannot read {path}: there is no such file or folder; check the path")
