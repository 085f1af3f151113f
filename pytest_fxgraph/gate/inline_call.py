"""The call of `fx_golden.inline` in the running code, and the place of its text in a file of the project."""

from __future__ import annotations

import functools
import os
import types
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from pytest_fxgraph.errors import GoldenWriteError
from pytest_fxgraph.gate.inline_digests import SOURCE_DIGESTS, source_digest
from pytest_fxgraph.gate.paths import slashed_path
from pytest_fxgraph.goldens.inline_source import InlineSource, Place

_REMEDY = "call fx_golden.inline in the test file, or in a file that it imports"


@dataclass(frozen=True)
class InlineCall:
    """One call that was made: where, and with which text."""

    file: str  # as the code that runs names it; may be none, such as "<string>"
    line: int
    end: Place | None  # where the call ends, which Python tells since 3.11
    text: str | None

    def shown_in(self, folder: Path) -> str:
        """Return the place as people read it, "tests/test_fuse.py:12"."""
        return f"{self.shown_file(folder)}:{self.line}"

    def shown_file(self, folder: Path) -> str:
        """Return the path of the file relative to a folder; a name that is no path, "<string>", as it is."""
        return self.file if self.file.startswith("<") else slashed_path(self.file, folder)


def call_at(frame: types.FrameType, text: str | None) -> InlineCall:
    """Return the call that a frame is making."""
    code = frame.f_code
    file, own = code.co_filename, frame.f_globals.get("__file__")
    # Byte code that was copied together with its project names the file of the other copy.
    if isinstance(own, str) and os.path.basename(own) == os.path.basename(file):
        file = own
    positions = getattr(code, "co_positions", None)
    _, line, _, column = next(islice(positions(), frame.f_lasti // 2, None)) if positions else (None,) * 4
    end = None if line is None or column is None else (line, column)
    return InlineCall(file, frame.f_lineno, end, text)


@dataclass(frozen=True)
class InlinePlace:
    """Where the text of a call stands in a file of the project, as plain data."""

    file: str  # relative to rootdir, with slashes
    digest: str
    end: Place


def place_of(call: InlineCall, config: pytest.Config) -> InlinePlace:
    """Find the text of a call in its file. Raises GoldenWriteError if it is not there, or could not be replaced."""
    shown = call.shown_in(config.rootpath)
    path, content = _file_of(call, shown, config)
    digest = source_digest(content)
    digests = config.stash.get(SOURCE_DIGESTS, None)
    if digests is not None and not digests.is_unchanged(path, digest):
        raise GoldenWriteError(
            f"cannot write the inline golden {shown}: the file was changed since its tests were collected; "
            "run them again"
        )
    file = _path_in(config.rootpath, path) or str(path)
    return InlinePlace(file, digest, _source(content, file).find(call.end, call.line, call.text))


def first_line_of(call: InlineCall, config: pytest.Config) -> int | None:
    """Return the line in which the text of a call begins; None where that cannot be told."""
    try:
        place = place_of(call, config)
        return _source(Path(config.rootpath, place.file).read_bytes(), place.file).first_line(place.end)
    except (GoldenWriteError, OSError):
        return None


def _file_of(call: InlineCall, shown: str, config: pytest.Config) -> tuple[Path, bytes]:
    """Return the file of a call and its content."""
    path = Path(config.rootpath, call.file)
    reason = ""
    if call.file.startswith("<") or not path.exists():
        is_archived = not call.file.startswith("<") and any(parent.is_file() for parent in path.parents)
        reason = "it lies in an archive" if is_archived else "its code is in no file, but was made while the tests ran"
    elif _path_in(config.rootpath, path) is None or "site-packages" in path.parts:
        reason = f"its file is not one of the project in {config.rootpath}"
    if reason:
        raise GoldenWriteError(f"cannot write the inline golden {shown}: {reason}; {_REMEDY}")
    try:
        return path, path.read_bytes()
    except OSError as error:
        raise GoldenWriteError(
            f"cannot write the inline golden {shown}: its file cannot be read "
            f"({(error.strerror or str(error)).lower()}); make it readable"
        ) from None


def _path_in(root: Path, path: Path) -> str | None:
    """Return the path of a file relative to a folder, with slashes; None if it is not below it, even by links."""
    for file, folder in ((os.path.abspath(path), str(root)), (os.path.realpath(path), os.path.realpath(root))):
        if Path(file).is_relative_to(folder):
            return slashed_path(file, folder)
    return None


@functools.lru_cache(maxsize=2)  # of one file, after another, many calls are looked for
def _source(content: bytes, shown_as: str) -> InlineSource:
    return InlineSource(content, shown_as)
