"""The golden files that lie in a folder, found by name and told from foreign files by how they begin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_fxgraph.document.location import SUFFIX

# As decoding accepts it: a BOM, comments and blank lines may come before the line that names the format.
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*format: *\d")
_ENOUGH = 4096


def goldens_below(root: Path) -> Iterator[PurePosixPath]:
    """Yield everything below a folder that is named like a golden, relative to it; links to folders are not followed.

    Variants and received files are among them.
    """
    for folder, folders, files in os.walk(root):
        folders.sort()
        relative = PurePosixPath(os.path.relpath(folder, root).replace(os.sep, "/"))
        yield from (relative / name for name in sorted(files) if name.endswith(SUFFIX))


def begins_like_a_golden(path: Path) -> bool:
    """Tell whether a file is one of ours: a golden folder may hold YAML of other people, which is left alone."""
    try:
        with path.open("rb") as file:
            return _BEGINNING.match(file.read(_ENOUGH)) is not None
    except OSError:
        return False


def file_tested_by(golden: PurePosixPath, rootpath: Path) -> str | None:
    """Give the test file that a golden is named for, relative to rootdir; None for one that is named for no file."""
    folder = golden.parent
    if folder == PurePosixPath("."):
        return None
    # Test files that are no Python keep their suffix, and their goldens lie in a folder of that very name.
    return str(folder) if Path(rootpath, folder).is_file() else f"{folder}.py"
