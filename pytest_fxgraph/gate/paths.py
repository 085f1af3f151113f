"""Where the golden folder is, and how paths in it are shown."""

from __future__ import annotations

import functools
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.settings import GOLDEN_DIR, value_of_config

if TYPE_CHECKING:
    from pytest_fxgraph.goldens.store import GoldenStore

_LAYOUT = pytest.StashKey[GoldenLayout]()
_STORE: pytest.StashKey[GoldenStore] = pytest.StashKey()
STARTED_IN = "fxgraph_started_in"  # the controller of pytest-xdist sends this to its workers


def started_in(config: pytest.Config) -> str:
    """Return the folder in which the user started pytest, on a worker as far as that is known."""
    folder = getattr(config, "workerinput", {}).get(STARTED_IN)
    return str(config.invocation_params.dir) if folder is None else os.path.join(config.rootpath, folder)


def golden_layout(config: pytest.Config) -> GoldenLayout:
    """Return where the goldens of this run lie. The answer is kept, because each golden asks several times."""
    layout = config.stash.get(_LAYOUT, None)
    if layout is None:
        layout = GoldenLayout(Path(config.rootpath), value_of_config(GOLDEN_DIR, config))
        config.stash[_LAYOUT] = layout
    return layout


def golden_root(config: pytest.Config) -> Path:
    """Return the folder that paths of goldens are relative to, absolute."""
    return golden_layout(config).root


def golden_store(config: pytest.Config) -> GoldenStore:
    """Return the golden files of this run. One store serves all tests, because a new one resolves links again."""
    from pytest_fxgraph.goldens.store import GoldenStore  # here, because the plugin imports this file in every run

    store = config.stash.get(_STORE, None)
    if store is None:
        store = config.stash[_STORE] = GoldenStore(golden_root(config))
    return store


def shown(path: PurePosixPath, config: pytest.Config) -> str:
    """Show the path of a golden within the folder as users read it."""
    return str(_prefix(config) / path)


def within_folder(shown_path: str, config: pytest.Config) -> PurePosixPath:
    """Return the path that a GoldenStore takes, relative to its folder, of a shown one."""
    return PurePosixPath(shown_path).relative_to(_prefix(config))


def _prefix(config: pytest.Config) -> PurePosixPath:
    return _shown_folder(golden_root(config), config.rootpath)


@functools.lru_cache(maxsize=8)
def _shown_folder(root: Path, rootpath: Path) -> PurePosixPath:
    return PurePosixPath(slashed_path(root, rootpath))


@functools.lru_cache(maxsize=256)  # a file has many tests, and the path takes a third of the time of a golden's name
def shown_test_file(path: Path, rootpath: Path) -> str:
    """Return the path of a test file relative to rootdir, with slashes."""
    return slashed_path(path, rootpath)


def slashed_path(path: str | Path, start: str | Path) -> str:
    """Return a path relative to a folder, with slashes; the whole path if it is on another drive of Windows."""
    try:
        return os.path.relpath(path, start).replace(os.sep, "/")
    except ValueError:
        return str(path).replace(os.sep, "/")
