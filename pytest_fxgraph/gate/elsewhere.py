"""Where else a golden that is missing may lie: another rootdir, or another folder, is a common reason.

The whole repository is looked through, once a run, and only if a golden is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.gate.paths import golden_layout, started_in
from pytest_fxgraph.goldens.files import SUFFIX, begins_like_a_golden, is_received
from pytest_fxgraph.goldens.layout import nearest_with, walk_project
from pytest_fxgraph.report.printable import printable_line

_MOST_FOLDERS = 20_000

# Paths of files with a golden's name, by the names of folder and file.
_Index = dict[tuple[str, str], list[Path]]
_INDEX = pytest.StashKey[_Index]()


def goldens_elsewhere(item: pytest.Item, golden: PurePosixPath) -> Iterator[str]:
    """Yield a line that names a golden of this test in another place, if there is one; `golden` is the missing one."""
    config = item.config
    top = nearest_with(config.rootpath, ".git", ".hg", ".svn") or config.rootpath
    if _INDEX not in config.stash:
        config.stash[_INDEX] = _index(top)
    missing = golden_layout(config).root / golden
    for path in config.stash[_INDEX].get(_key(missing), ()):
        if path != missing and _is_of_test(path, item.path, top) and begins_like_a_golden(path):
            place = os.path.relpath(path, started_in(config)).replace(os.sep, "/")
            yield f"  but there is {printable_line(place)}; is the rootdir right, {config.rootpath}?"
            return


def _index(top: Path) -> _Index:
    index: _Index = {}
    for folder, _, files in islice(walk_project(top), _MOST_FOLDERS):
        for name in files:
            if name.endswith(SUFFIX) and not is_received(PurePosixPath(name)):
                path = Path(folder, name)
                index.setdefault(_key(path), []).append(path)
    return index


def _key(path: Path) -> tuple[str, str]:
    # The digest in a name depends on where rootdir is.
    return path.parent.name, path.name.removesuffix(SUFFIX).partition("~")[0]


def _is_of_test(golden: Path, test: Path, top: Path) -> bool:
    """Tell whether a golden can be one of a test file, for some rootdir and some golden folder, and not of another's.

    Its folder is the path of its test file, if one leaves the golden folder out, wherever in it that may be.
    """
    parts = golden.relative_to(top).parent.parts
    own = Path(os.path.relpath(test.with_suffix("") if test.suffix == ".py" else test, top)).parts
    places = [(start, end) for start in range(len(parts)) for end in range(start + 1, len(parts))]
    tested = {parts[:start] + parts[end:] for start, end in places}
    if own in tested:
        return True
    # Another test file uses a golden of the same name: the golden is not this test's.
    return not any(Path(top, *each[:-1], each[-1] + ".py").exists() for each in tested)
