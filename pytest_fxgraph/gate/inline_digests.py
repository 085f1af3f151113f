"""What test files were when they were collected: an inline golden is written into no other text.

A file of its own, as each run with --fx-update-golden loads it, whether a golden is inline or not.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest


class SourceDigests:
    """Knows what test files were when they were collected. Registered where goldens are to be written."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._digests: dict[str, str | None] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path) -> None:
        """Read a test file before it is imported; collect nothing."""
        try:
            self._digests[os.path.realpath(module_path)] = source_digest(Path(module_path).read_bytes())
        except OSError:  # pytest itself will say so
            self._digests[os.path.realpath(module_path)] = None

    def is_unchanged(self, path: Path, digest: str) -> bool:
        """Tell whether a file is as it was; one that was not collected must be older than the run."""
        real = os.path.realpath(path)
        if real in self._digests:
            return self._digests[real] == digest
        return path.stat().st_mtime_ns <= self._began


SOURCE_DIGESTS = pytest.StashKey[SourceDigests]()


def source_digest(content: bytes) -> str:
    """Return a digest of a file, to the byte."""
    return hashlib.sha256(content).hexdigest()
