"""A pytest process and the CPU time that it took."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def cpu_seconds(folder: Path, options: Sequence[str], *, must_pass: bool = True) -> float:
    """Run pytest in a folder and return its CPU seconds, user and system. Raises RuntimeError if tests fail."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    root = str(Path(__file__).parents[2])
    before = _children()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root}
    )
    if must_pass and done.returncode:
        raise RuntimeError(f"{' '.join(command)} in {folder} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
