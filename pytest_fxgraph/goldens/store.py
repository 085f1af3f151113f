"""Golden files on disk: read whole, written whole or not at all, and never outside their folder."""

from __future__ import annotations

import functools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_fxgraph.document.model import MOST_BYTES
from pytest_fxgraph.errors import GoldenFormatError, GoldenMissingError, GoldenNameError, GoldenWriteError, ReportError
from pytest_fxgraph.goldens import files
from pytest_fxgraph.goldens.lock import TEMPORARY_SUFFIX, locked

_READ_REMEDY = "restore it from version control, or rewrite it with pytest --fx-update-golden"


class GoldenStore:
    """The golden files below one folder, named by paths relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    @functools.cached_property
    def _real_root(self) -> str:
        return os.path.realpath(self.root)

    def path(self, relative: PurePosixPath | str) -> Path:
        """Return the path of a golden; raise GoldenNameError if it leaves the folder, by its name or by links."""
        parts = self._parts(str(relative))
        path = self.root.joinpath(*parts)
        if not _has_links(self._real_root, parts):  # nearly always; resolving the whole path takes five times as long
            return path
        real_root, real_path = self._real_root, os.path.realpath(path)
        if not _is_below(real_path, real_root):
            raise GoldenNameError(
                f"cannot use {str(relative)!r} as a golden file: links lead it to {real_path}, outside {self.root}; "
                "remove them"
            )
        return path

    def _parts(self, text: str) -> list[str]:
        parts = [part for part in text.split("/") if part not in ("", ".")]
        is_foreign = "\\" in text or "\0" in text or (":" in text and PureWindowsPath(text).drive)
        if not parts or is_foreign or text.startswith("/") or ".." in parts:
            raise GoldenNameError(
                f"cannot use {text!r} as a golden file: it is not a path below {self.root}; choose another name"
            )
        return parts

    def exists(self, relative: PurePosixPath | str) -> bool:
        """Tell whether there is something at a golden's path, readable or not; raise GoldenNameError as `path` does.

        Links are followed only where something is: most paths asked for are of variants that nobody has.
        """
        place = os.sep.join([str(self.root), *self._parts(str(relative))])
        return os.path.lexists(place) and os.path.lexists(self.path(relative))

    def read(self, relative: PurePosixPath | str) -> str:
        """Return a golden's text, its lines ended by line feeds and without a BOM.

        Raises GoldenMissingError if there is no file, and GoldenFormatError if it cannot be read as UTF-8 text.
        """
        content = self._content(self.path(relative))
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            reason = f"it is not UTF-8 text (byte {error.start}: {error.reason})"
            raise GoldenFormatError(
                f"cannot read the golden file {relative}, line {line}: {reason}; {_READ_REMEDY}"
            ) from None
        # Asked first, in one of a hundred parts of the time.
        return (text.replace("\r\n", "\n") if "\r" in text else text).removeprefix("\ufeff")

    def write(self, relative: PurePosixPath | str, text: str) -> bool:
        """Replace a golden by a text in one step, and tell whether that was necessary.

        Raises GoldenWriteError if that fails; the file that was there before is then whole.
        """
        path = self.path(relative)
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise GoldenWriteError(
                f"cannot write the golden file {path}: its text cannot be stored as UTF-8 ({error.reason}); "
                "the text of the graph holds half a surrogate pair, use a whole character"
            ) from None
        return _put(path, content)

    def replace(self, relative: PurePosixPath | str, text: str, compared_with: str | None) -> bool:
        """Write a text in place of the golden with the digest `compared_with`; None stands for no golden.

        Waits while another run writes here, then reads the golden again. Returns False, and writes nothing, if the
        golden is neither the compared one nor this text. Raises the errors of `write`, and OSError for a lock that
        another run holds for a minute.
        """
        path = self.path(relative)
        with _write_errors(path), locked(Path(os.path.realpath(path)), str(path)):
            if not self.may_replace(relative, text, compared_with):
                return False
            self.write(relative, text)
        return True

    def may_replace(self, relative: PurePosixPath | str, text: str, compared_with: str | None) -> bool:
        """Return whether the golden is still the one with the digest `compared_with`, or is this text already."""
        try:
            found = self.digest(relative)
        except GoldenFormatError:  # nothing could be compared with this file, either
            found = None
        return found in (compared_with, files.golden_digest(text.encode("utf-8", "surrogatepass")))

    def copy(self, source: PurePosixPath | str, target: PurePosixPath | str) -> bool:
        """Make one golden a copy of another, byte for byte, and tell whether that was necessary; errors as of `write`.

        Raises GoldenMissingError or GoldenFormatError if the other cannot be read.
        """
        content = self._content(self.path(source))
        return _put(self.path(target), content)

    def digest(self, relative: PurePosixPath | str) -> str | None:
        """Return the digest of a golden as received files name it; None if there is no golden.

        Raises GoldenFormatError if the file cannot be read.
        """
        try:
            return files.golden_digest(self._content(self.path(relative)))
        except GoldenMissingError:
            return None

    def remove(self, relative: PurePosixPath | str) -> bool:
        """Remove a file and the folders that it leaves empty; tell whether there was one.

        Raises GoldenWriteError if it cannot be removed.
        """
        path = self.path(relative)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise GoldenWriteError(
                f"cannot remove {path}: {_reason(error)}; give permission, or remove it yourself"
            ) from error
        for folder in path.relative_to(self.root).parents[:-1]:
            try:
                (self.root / folder).rmdir()
            except OSError:  # there is something else in it
                break
        return True

    def _content(self, path: Path) -> bytes:
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
                raise GoldenFormatError(f"cannot read the golden file {path}: it is {kind}; remove it and try again")
            if status.st_size > MOST_BYTES:
                raise GoldenFormatError(
                    f"cannot read the golden file {path}: it is larger than {MOST_BYTES // 2**20} MiB; {_READ_REMEDY}"
                )
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise GoldenMissingError(
                f"there is no golden file {path}; look at the graph, and record it with pytest --fx-update-golden"
            ) from None
        except OSError as error:
            raise GoldenFormatError(
                f"cannot read the golden file {path}: {_reason(error)}; make it readable and try again"
            ) from None


def rank_variants(
    store: GoldenStore, golden: PurePosixPath, *, received: bool = False
) -> dict[PurePosixPath, frozenset[int]]:
    """Map each variant of a golden for ranks of a launch to its ranks; with `received`, those with a received file."""
    with suppress(OSError):
        paths = [golden.parent / name for name in sorted(os.listdir(store.path(golden).parent))]
        if received:
            paths = [files.golden_of_received(path) for path in paths if files.is_received(path)]
        served = {path: files.ranks_served_by(path) for path in paths if files.golden_of_all_ranks(path) == golden}
        return {path: ranks for path, ranks in served.items() if ranks}
    return {}


def _has_links(folder: str, parts: Iterable[str]) -> bool:
    """Tell whether a path leads below a folder through anything that is no plain folder, or may do so."""
    place = folder
    for part in parts:
        place = f"{place}{os.sep}{part}"
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return False  # nothing is there, so that nothing leads anywhere
        except OSError:
            return True
        if stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_reparse_tag", 0)):  # a junction of Windows
            return True
    return False


def _is_below(path: str, folder: str) -> bool:
    try:
        return path != folder and os.path.commonpath([folder, path]) == folder
    except ValueError:  # on another drive of Windows
        return False


def _put(path: Path, content: bytes) -> bool:
    """Replace a file in one step, and tell whether that was necessary. Raises GoldenWriteError."""
    with _write_errors(path):
        if _holds(path, content):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link is kept, and its target is replaced.
        replace_whole(Path(os.path.realpath(path)), content)
    return True


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except FileNotFoundError:
        return False


def replace_whole(path: Path, content: bytes, *, is_synced: bool = True) -> None:
    """Write beside a file, then put the new one in its place: a reader sees the old or the new text, whole.

    With `is_synced`, that also holds when the machine loses power. Raises OSError if that fails; nothing was changed
    then.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "the file is read-only")
    temporary = path.with_name(f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        with suppress(OSError):  # not worth a failure: the text matters, the mode is a courtesy
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:  # also when the run is interrupted
        with suppress(OSError):
            temporary.unlink()
        raise


def write_whole(path: Path, text: str, what: str, *, shown_as: str | None = None) -> None:
    """Write a text file anywhere in one step, and its folder if that is missing; errors call it `what` and `shown_as`.

    Raises ReportError if that fails; the file that was there before is then whole.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(Path(os.path.realpath(path)), text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ReportError(f"cannot write the {what} {shown_as or path}: {_reason(error)}; {_remedy(error)}") from error


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except GoldenWriteError:  # an OSError that has its message already
        raise
    except OSError as error:
        raise GoldenWriteError(
            f"cannot write the golden file {path}: {_reason(error)}; nothing was changed, what was there before is "
            f"whole; {_remedy(error)}, and run the same command again"
        ) from error


def _remedy(error: OSError) -> str:
    is_in_the_way = isinstance(error, (NotADirectoryError, IsADirectoryError, FileExistsError))
    return "move what lies in its place" if is_in_the_way else "make room or give permission"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
