"""The plugin of a run that `fxgraph repeat` starts: it turns orders round that should not matter.

The variable FXGRAPH_REVERSED names the orders: `tests`, and `folders` for the entries that `os.listdir` and
`os.scandir` give. pytest-randomly gets one seed and leaves the order of tests alone, because its draws would hide the
cause of a difference. Tests without a seed stay without one, because `fxgraph repeat` tells what depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pytest_fxgraph.replay.seeded_run import pytest_configure

__all__ = ["pytest_configure"]  # a hook of this plugin, too
_ORDERS = os.environ.get("FXGRAPH_REVERSED", "").split(",")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run the last test first."""
    if "tests" in _ORDERS:
        items.reverse()


class _ReversedEntries:
    """The entries of a folder, from the last to the first, as `os.scandir` gives them."""

    def __init__(self, scandir: Callable[..., Any], *arguments: Any) -> None:
        with scandir(*arguments) as entries:
            self._entries = reversed([*entries])

    def __iter__(self) -> _ReversedEntries:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _ReversedEntries:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: the folder was read to its end."""


def _reverse_folders() -> None:
    listdir, scandir = os.listdir, os.scandir
    changed: Any = os
    changed.listdir = lambda *arguments: listdir(*arguments)[::-1]
    changed.scandir = lambda *arguments: _ReversedEntries(scandir, *arguments)


if "folders" in _ORDERS:
    _reverse_folders()  # now, because the modules of the tests may list a folder when they are imported
