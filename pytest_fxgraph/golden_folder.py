"""Where the goldens of a run lie, and how their paths are shown: relative to rootdir, with forward slashes.

Shown paths travel between processes; those of a remote worker, whose rootdir is another, mean the same here.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.settings import GOLDEN_DIR, value_of_config


def golden_root(config: pytest.Config) -> Path:
    """Return the folder of the goldens, absolute."""
    return Path(config.rootpath, value_of_config(GOLDEN_DIR, config))


def shown(path: PurePosixPath, config: pytest.Config) -> str:
    """Show the path of a golden within the folder as users read it."""
    return str(_prefix(config) / path)


def within_folder(shown_path: str, config: pytest.Config) -> PurePosixPath:
    """Return a shown path as the store takes it: relative to the folder."""
    return PurePosixPath(shown_path).relative_to(_prefix(config))


def _prefix(config: pytest.Config) -> PurePosixPath:
    return _shown_folder(golden_root(config), config.rootpath)


@functools.lru_cache(maxsize=8)  # asked several times for each golden
def _shown_folder(root: Path, rootpath: Path) -> PurePosixPath:
    try:
        return PurePosixPath(os.path.relpath(root, rootpath).replace(os.sep, "/"))
    except ValueError:
        # On Windows, a folder on another drive has no relative path.
        return PurePosixPath(root.as_posix())
