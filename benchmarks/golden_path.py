"""Which of our files does a matching golden enter, and how often does it climb back up?

`python -m benchmarks.golden_path` runs one test, `assert model == fx_golden`, and follows every call in it. A file
counts as entered if one of its functions runs. A climb is a call from a place of the import order to a place above it.
Places are packages and files of the root, in the order of tests/architecture/test_import_direction.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from tests.architecture.test_import_direction import ORDER, ROOT, place_of

_TEST = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 5)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1

def test_net(fx_golden):
    assert Net() == fx_golden
"""
_PACKAGES = ("fxcore", "pytest_fxgraph")


class Climb(NamedTuple):
    """A call from a lower place to a higher one, by the names of the two functions."""

    caller: str
    called: str


class GoldenPath(NamedTuple):
    """The files that a comparison enters and its climbs, both sorted."""

    files: tuple[str, ...]
    climbs: tuple[Climb, ...]


class Recorder:
    """A pytest plugin that follows the calls of each test function."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}
        self._files: set[str] = set()
        self._climbs: set[Climb] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Record the calls of one test function."""
        with self.following():
            return (yield)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Record the calls of a block."""
        before = sys.getprofile()
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(before)

    def path(self) -> GoldenPath:
        """Return everything that was recorded."""
        return GoldenPath(tuple(sorted(self._files)), tuple(sorted(self._climbs)))

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        module = self._module_of(frame)
        if module is None:
            return
        self._files.add(module)
        caller = next(self._own_callers(frame), None)
        if caller is not None and _height(caller[0]) < _height(module):
            self._climbs.add(Climb(f"{caller[0]}.{caller[1]}", f"{module}.{frame.f_code.co_name}"))

    def _own_callers(self, frame: FrameType) -> Iterator[tuple[str, str]]:
        """Yield the callers that are ours, the nearest first. pluggy and torch may stand between."""
        caller = frame.f_back
        while caller is not None:
            module = self._module_of(caller)
            if module is not None:
                yield module, caller.f_code.co_name
            caller = caller.f_back

    def _module_of(self, frame: FrameType) -> str | None:
        """Return the name of our module that the code of a frame belongs to, None for the code of others."""
        file = frame.f_code.co_filename
        if file not in self._names:
            path = Path(file)
            parts = path.relative_to(ROOT).with_suffix("").parts if path.is_relative_to(ROOT) else ()
            self._names[file] = ".".join(parts) if parts and parts[0] in _PACKAGES else None
        return self._names[file]


def _height(module: str) -> int:
    place = place_of(module)
    return ORDER.index(place) if place in ORDER else -1


def golden_path() -> GoldenPath:
    """Record a golden in a new folder, then follow the test that compares with the golden."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        Path(folder, "test_net.py").write_text(_TEST, encoding="utf-8")
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", folder]
        for more, plugins in ((["--fx-update-golden"], []), ([], [recorder := Recorder()])):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = pytest.main([*options, *more], plugins=plugins)
            if code != pytest.ExitCode.OK:
                raise RuntimeError(f"the test did not pass, pytest ended with {code!r}:\n{printed.getvalue()}")
    return recorder.path()


def main() -> None:
    """Print both figures, then the files and the climbs."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    path = golden_path()
    print(f"a matching golden enters {len(path.files)} files and climbs {len(path.climbs)} times")
    print(*(f"  {file}" for file in path.files), sep="\n")
    print(*(f"  {climb.caller} -> {climb.called}" for climb in path.climbs), sep="\n")


if __name__ == "__main__":
    main()
