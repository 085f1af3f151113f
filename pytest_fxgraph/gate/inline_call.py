"""The call of `fx_golden.inline` in the running code, and the place of its text in a file of the project."""

from __future__ import annotations

import functools
import hashlib
import os
import time
import types
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from pytest_fxgraph.errors import GoldenWriteError
from pytest_fxgraph.gate.paths import slashed_path
from pytest_fxgraph.goldens.inline_source import InlineSource, Place
from pytest_fxgraph.goldens.inline_text import dedented

_REMEDY = "call fx_golden.inline in the test file, or in a file that it imports"


class CollectedSources:
    """The test files as they were when they were collected. Registered where the run writes goldens.

    An inline golden is written into no other program: the line of a call says nothing of a file that was changed.
    """

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._contents: dict[str, bytes | None] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path) -> None:
        """Read a test file before it is imported; collect nothing."""
        real = os.path.realpath(module_path)
        try:
            self._contents[real] = Path(real).read_bytes()
        except OSError:  # pytest itself reports the file
            self._contents[real] = None

    def content_of(self, path: Path, content: bytes) -> bytes | None:
        """Return a file as it was collected, None if it was changed since. A file that was not collected is unchanged
        if it is older than the run.
        """
        real = os.path.realpath(path)
        if real in self._contents:
            return self._contents[real]
        return content if path.stat().st_mtime_ns <= self._began else None


COLLECTED_SOURCES = pytest.StashKey[CollectedSources]()


def source_digest(content: bytes) -> str:
    """Return a digest of a file, to the byte."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class InlineCall:
    """One call, with its place and its text."""

    file: str  # as the running code names it; "<string>" is no file
    line: int
    end: Place | None  # the end of the call, known since Python 3.11
    text: str | None

    def shown_in(self, folder: Path) -> str:
        """Return the place as people read it, "tests/test_fuse.py:12"."""
        # A name that is no path, "<string>", stays as it is.
        file = self.file if self.file.startswith("<") else slashed_path(self.file, folder)
        return f"{file}:{self.line}"


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
    digest: str  # of the file
    end: Place
    # For a file that another run has changed since: the program without texts, the position of the call, and its text.
    program: str
    number: int
    text: str


def place_of(call: InlineCall, config: pytest.Config) -> InlinePlace:
    """Find the text of a call in its file. Raises GoldenWriteError if it is not there, or could not be replaced."""
    shown = call.shown_in(config.rootpath)
    path, content = _file_of(call, shown, config)
    file = _path_in(config.rootpath, path) or str(path)
    collected = config.stash.get(COLLECTED_SOURCES, None)
    if collected is not None:
        found = collected.content_of(path, content)
        # Another run may have written other texts into the file.
        if found is None or (found != content and _source(found, file).program != _source(content, file).program):
            raise GoldenWriteError(
                f"cannot write the inline golden {shown}: the file was changed since its tests were collected; "
                "run them again"
            )
        content = found
    source = _source(content, file)
    end = source.find(call.end, call.line, call.text)
    text = dedented(call.text or "")
    return InlinePlace(file, source_digest(content), end, source.program, source.number_of(end), text)


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


@functools.lru_cache(maxsize=2)  # many calls of one file are looked for in a row
def _source(content: bytes, shown_as: str) -> InlineSource:
    return InlineSource(content, shown_as)
