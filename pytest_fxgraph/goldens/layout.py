"""Where the goldens of a project lie: in one folder for all tests, or in a folder beside each test file.

The plugin and the command use it, because the command has to find the same files without a run. Paths of goldens are
relative to `root`, and have forward slashes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from pytest_fxgraph.choices import BESIDE
from pytest_fxgraph.goldens.files import FOLDER_BESIDE, SUFFIX, file_tested_by, goldens_below

# Folders that hold no tests of the project, and sometimes very many files.
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
_MARKS_OF_ENVIRONMENTS = frozenset({"pyvenv.cfg", "conda-meta"})


class GoldenLayout:
    """The goldens of the tests below `rootpath`, for one value of the setting `fx_golden_dir`."""

    # No dataclass: every run of pytest would wait for it.
    def __init__(self, rootpath: Path, setting: str) -> None:
        self.rootpath = rootpath
        self.setting = setting
        self.is_beside = setting == BESIDE  # each test file has a folder beside it

    @cached_property
    def root(self) -> Path:
        """The folder that paths of goldens are relative to."""
        return self.rootpath if self.is_beside else Path(self.rootpath, self.setting)

    def goldens(self, test_files: Collection[str] | None = None) -> Iterator[PurePosixPath]:
        """Yield all files with a golden's name, with variants and received files. Links to folders are not followed.

        Where each test file has a folder beside it, `test_files` (relative to `rootpath`) spare a walk through the
        whole project: only the folders beside these are looked into.
        """
        if not self.is_beside:
            yield from goldens_below(self.root)
            return
        for folder in _folders_beside(self.rootpath, test_files):
            for golden in goldens_below(self.rootpath / folder):
                if len(golden.parts) == 2:  # deeper down may lie tests, with goldens of their own
                    yield folder / golden

    def file_tested_by(self, golden: PurePosixPath) -> str | None:
        """Return the test file that a golden is named for, relative to `rootpath`; None if it is named for no file."""
        if not self.is_beside:
            return file_tested_by(golden, self.rootpath)
        if golden.parent.parent.name != FOLDER_BESIDE:
            return None
        home = golden.parent.parent.parent
        file = file_tested_by(PurePosixPath(*golden.parts[-2:]), self.rootpath / home)
        return None if file is None else str(home / file)

    def top_folder(self, golden: PurePosixPath) -> PurePosixPath:
        """Return the golden folder that a golden lies in, relative to `root`."""
        return golden.parent.parent if self.is_beside else PurePosixPath()

    def holds(self, path: Path) -> bool:
        """Tell whether a file has the place and the name of a golden."""
        if path.suffix != SUFFIX or not path.is_relative_to(self.root):
            return False
        return not self.is_beside or path.relative_to(self.root).parts[-3:-2] == (FOLDER_BESIDE,)


def _folders_beside(rootpath: Path, test_files: Collection[str] | None) -> Iterator[PurePosixPath]:
    """Yield the golden folders beside some test files, or all there are, relative to `rootpath`."""
    if test_files is not None:
        yield from sorted({PurePosixPath(file).parent / FOLDER_BESIDE for file in test_files})
        return
    for folder, folders, _ in walk_project(rootpath):
        if FOLDER_BESIDE in folders:
            yield PurePosixPath(os.path.relpath(folder, rootpath).replace(os.sep, "/"), FOLDER_BESIDE)


def nearest_with(folder: Path, *names: str) -> Path | None:
    """Return the folder itself or the nearest one around it that has a file or folder of these names."""
    return next((each for each in (folder, *folder.parents) if any((each / name).exists() for name in names)), None)


def walk_project(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk as os.walk does, and leave out hidden folders, installed packages and virtual environments."""
    for folder, folders, files in os.walk(top):
        if folder != str(top) and not _MARKS_OF_ENVIRONMENTS.isdisjoint((*folders, *files)):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        yield folder, folders, files
