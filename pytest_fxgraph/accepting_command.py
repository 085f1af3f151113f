"""The command line that writes a golden, as a user can paste it where pytest was started."""

from __future__ import annotations

import os
import shlex

import pytest

from pytest_fxgraph.settings import GOLDEN_DIR

_LONGEST_ID = 100


def accepting_command(item: pytest.Item) -> str:
    """Return the command that writes the goldens of this test, or of its file where the id is no word for a shell."""
    words = ["pytest", "--fx-update-golden"]
    folder = item.config.getoption(GOLDEN_DIR.key)
    if folder is not None:
        words += [GOLDEN_DIR.option, shlex.quote(folder)]
    return " ".join([*words, _target(item)])


def _target(item: pytest.Item) -> str:
    file = os.path.relpath(item.path, item.config.invocation_params.dir).replace(os.sep, "/")
    _, colons, inside = str(item.nodeid).partition("::")
    target = file + colons + inside
    if len(target) <= _LONGEST_ID and shlex.quote(inside) == inside:
        return shlex.quote(target)
    return shlex.quote(file)
