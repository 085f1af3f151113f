"""Recordings of a suite: of a commit, kept in a cache, and of the checkout as it is."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from pytest_fxgraph import __version__
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.child_run import NOT_COLLECTED, ChildRun, record_in_child
from pytest_fxgraph.replay.interpreters import Interpreter, environment_for, foreign_modules
from pytest_fxgraph.replay.revisions import Repository
from pytest_fxgraph.report.printable import listed

# Variables with these beginnings can change a graph, so a recording under other values is another one.
_TELLING = ("TORCH", "PYTORCH", "PYTEST_", "PYTHON", "CUDA", "OMP_", "MKL_", "FX")
_OF_THIS_PROCESS = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID")
_MOST_NAMED = 4


@dataclass(frozen=True)
class Suite:
    """The tests that are recorded: a run of pytest in a folder of a checkout."""

    repository: Repository
    folder: Path  # in which pytest runs
    arguments: Sequence[str]  # of pytest
    copied: Sequence[str] = ()  # patterns of ignored files that other trees get, too
    timeout: float | None = None


class RecordedTrees:
    """Records a suite in its checkout and in trees of other commits, and keeps the recordings of commits."""

    def __init__(self, suite: Suite, cache: Path, tell: Callable[[str], None], *, is_fresh: bool = False) -> None:
        self._suite, self._cache, self._tell, self._is_fresh = suite, cache, tell, is_fresh
        self._runs = cache / "runs"
        self._interpreters: dict[str, Interpreter] = {}
        if self._runs.resolve().is_relative_to(suite.repository.root):
            raise RecordingError(
                f"cannot record below {cache}: it is in the checkout, which stays as it is; name another folder with "
                "the variable XDG_CACHE_HOME"
            )

    def of_commit(self, commit: str, python: str = sys.executable) -> Recording:
        """Return the recording of a commit, from the cache if it is there.

        Raises RecordingError if the run leaves no whole recording, or if it imported the checkout's code.
        """
        interpreter = self.interpreter(python)
        kept = self._cache / "recordings" / self._key(commit, interpreter)
        title = self._suite.repository.title(commit)
        if kept.is_dir() and not self._is_fresh:
            recording = _recording_of(commit, kept)
            if not recording.cut_off:
                self._tell(f"{title}: recorded before, in {kept}")
                return recording
        with self._scratch() as scratch:
            tree = scratch / "tree"
            self._suite.repository.write_out(commit, tree)
            for name in self._copied_files():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._suite.repository.root / name, tree / name)
            self._tell(f"{title}: recording in {tree} with {interpreter.title}")
            place = self._record(tree, scratch, interpreter, title)
            kept.parent.mkdir(exist_ok=True)
            if kept.exists():  # a recording that is to be fresh, or that another process wrote meanwhile
                shutil.rmtree(kept)
            os.replace(place, kept)
        return _recording_of(commit, kept)

    @contextmanager
    def of_checkout(self, python: str = sys.executable) -> Iterator[Recording]:
        """Record the checkout as it is; the recording is gone when the context ends. Raises as `of_commit` does."""
        interpreter = self.interpreter(python)
        with self._scratch() as scratch:
            self._tell(f"the checkout: recording in {self._suite.folder} with {interpreter.title}")
            place = self._record(self._suite.repository.root, scratch, interpreter, "the checkout")
            yield Recording.read(RecordingStore(str(place)))

    def interpreter(self, python: str) -> Interpreter:
        """Return the facts about an interpreter. Raises RecordingError if it cannot record."""
        if python not in self._interpreters:
            self._interpreters[python] = Interpreter.ask(python)
        return self._interpreters[python]

    def _record(self, tree: Path, scratch: Path, interpreter: Interpreter, title: str) -> Path:
        checkout = self._suite.repository.root
        roots = interpreter.import_roots(checkout)
        folder = tree / self._suite.folder.relative_to(checkout)
        if not folder.is_dir():
            raise RecordingError(f"cannot record {title}: it has no folder {folder.relative_to(tree)}")
        place = scratch / "recording"
        # The cache of pytest is not to appear in the checkout.
        arguments = ["--fx-record-seeded", "-o", f"cache_dir={scratch / 'cache'}", *self._arguments_in(tree)]
        environment, timeout = environment_for(tree, checkout, roots), self._suite.timeout
        run = record_in_child(
            str(place), arguments, folder=folder, python=interpreter.path, environment=environment, timeout=timeout
        )
        if run.problem:
            raise RecordingError(f"cannot record {title}: {run.problem}{self._hint(tree, run)}")
        recording = Recording.read(RecordingStore(str(place)))
        foreign = foreign_modules(recording.modules, tree, roots, [checkout])
        if foreign:
            told = listed([f"{name} from {file}" for name, file in sorted(foreign.items())], _MOST_NAMED)
            raise RecordingError(
                f"cannot compare {title}: its run imported code from elsewhere: {told}; install the project with "
                f"{interpreter.path} -m pip install --editable, or say in PYTHONPATH where its packages lie"
            )
        return place

    def _hint(self, tree: Path, run: ChildRun) -> str:
        """Return the next step for a base that lacks files or packages of the checkout."""
        checkout = self._suite.repository.root
        if tree == checkout or run.status not in NOT_COLLECTED:
            return ""
        named = [self._suite.folder / each.partition("::")[0] for each in self._suite.arguments]
        inside = [str(path.relative_to(checkout)) for path in named if path.exists() and path.is_relative_to(checkout)]
        new = dict.fromkeys(path for path in inside if not (tree / path).exists())
        if new:
            return f"; the base has no {listed(new, _MOST_NAMED)}: leave it out of the arguments"
        ignored = [name for name in self._suite.repository.ignored_files() if not (tree / name).exists()]
        lacking = (
            f"; git ignores {listed(ignored, _MOST_NAMED)}, so the base lacks it: hand it over with --copy PATTERN"
        )
        return (
            f"{lacking * bool(ignored)}; if the base needs other packages than the change, record it with them by "
            "pytest --fx-record FOLDER --fx-record-seeded and give it with --against FOLDER"
        )

    def _arguments_in(self, tree: Path) -> list[str]:
        """Return pytest's arguments with the tree's folder where they name the checkout's."""
        checkout = str(self._suite.repository.root)
        return [
            each.replace(f"{checkout}{os.sep}", f"{tree}{os.sep}") if each != checkout else str(tree)
            for each in self._suite.arguments
        ]

    def _copied_files(self) -> list[str]:
        if not self._suite.copied:
            return []
        ignored = self._suite.repository.ignored_files()
        found = [name for name in ignored if any(fnmatch(name, pattern) for pattern in self._suite.copied)]
        unused = [each for each in self._suite.copied if not any(fnmatch(name, each) for name in ignored)]
        if unused:
            raise RecordingError(
                f"cannot copy {listed(unused, _MOST_NAMED)}: no file of the checkout that git ignores matches; give "
                "the path from the top of the repository"
            )
        return found

    def _key(self, commit: str, interpreter: Interpreter) -> str:
        """Return the name of a recording in the cache: equal runs have equal names."""
        root = self._suite.repository.root
        copied = [(name, hashlib.sha256((root / name).read_bytes()).hexdigest()) for name in self._copied_files()]
        telling = (name for name in os.environ if name.startswith(_TELLING) and name not in _OF_THIS_PROCESS)
        environment = sorted((name, os.environ[name]) for name in telling)
        told = [
            *(commit, str(root), str(self._suite.folder), list(self._suite.arguments), copied, environment),
            *(interpreter.path, interpreter.version, sorted(interpreter.releases.items()), __version__),
        ]
        return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()[:24]

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Yield a folder for one run, and remove it and those of processes that were killed."""
        self._runs.mkdir(parents=True, exist_ok=True)
        for left in self._runs.iterdir():
            if _has_ended(left.name):
                shutil.rmtree(left, ignore_errors=True)
        # The host is part of the name, because processes of several hosts may share a cache.
        scratch = self._runs / f"{socket.gethostname()}@{os.getpid()}@{secrets.token_hex(4)}"
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _recording_of(commit: str, kept: Path) -> Recording:
    """Read a recording of a commit. The run did not know the commit, because its tree has no repository."""
    recording = Recording.read(RecordingStore(str(kept)))
    runs = [run._replace(environment={**run.environment, "commit": commit}) for run in recording.runs]
    return replace(recording, runs=runs)


def _has_ended(name: str) -> bool:
    """Tell whether the process that made a scratch folder is known to have ended."""
    host, _, rest = name.partition("@")
    process = rest.partition("@")[0]
    if host != socket.gethostname() or not process.isdecimal() or not hasattr(os, "killpg"):
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def cache_folder() -> Path:
    """Return the folder of this user for recordings, outside any checkout."""
    named = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    usual = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(named) if named else usual) / "fxgraph"
