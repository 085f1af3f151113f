"""Where the golden folder is, how paths in it are shown, and the command that writes a golden."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.settings import GOLDEN_DIR, value_of_config

_LONGEST_ID = 100
STARTED_IN = "fxgraph_started_in"  # what the controller of pytest-xdist tells its workers


def accepting_command(item: pytest.Item) -> str:
    """Return the command that writes the goldens of this test, or of its file where a shell would not read the id.

    It can be pasted where the user's pytest was started.
    """
    parts = ["pytest", "--fx-update-golden"]
    folder = item.config.getoption(GOLDEN_DIR.key)
    if folder is not None:
        parts += [GOLDEN_DIR.option, shlex.quote(folder)]
    return " ".join([*parts, _target(item)])


def _started_in(config: pytest.Config) -> str:
    folder = getattr(config, "workerinput", {}).get(STARTED_IN)
    return str(config.invocation_params.dir) if folder is None else os.path.join(config.rootpath, folder)


def _target(item: pytest.Item) -> str:
    file = slashed_path(item.path, _started_in(item.config))
    _, colons, inside = str(item.nodeid).partition("::")
    target = file + colons + inside
    if len(target) <= _LONGEST_ID and shlex.quote(inside) == inside:
        return shlex.quote(target)
    return shlex.quote(file)


def golden_root(config: pytest.Config) -> Path:
    """Return the folder of the goldens, absolute."""
    return Path(config.rootpath, value_of_config(GOLDEN_DIR, config))


def shown(path: PurePosixPath, config: pytest.Config) -> str:
    """Show the path of a golden within the folder as users read it."""
    return str(_prefix(config) / path)


def within_folder(shown_path: str, config: pytest.Config) -> PurePosixPath:
    """Return the path that a GoldenStore takes, relative to its folder, of a shown one."""
    return PurePosixPath(shown_path).relative_to(_prefix(config))


def _prefix(config: pytest.Config) -> PurePosixPath:
    return _shown_folder(golden_root(config), config.rootpath)


@functools.lru_cache(maxsize=8)  # asked several times for each golden
def _shown_folder(root: Path, rootpath: Path) -> PurePosixPath:
    return PurePosixPath(slashed_path(root, rootpath))


def slashed_path(path: str | Path, start: str | Path) -> str:
    """Return a path relative to a folder, with slashes; the whole path if it is on another drive of Windows."""
    try:
        return os.path.relpath(path, start).replace(os.sep, "/")
    except ValueError:
        return str(path).replace(os.sep, "/")
