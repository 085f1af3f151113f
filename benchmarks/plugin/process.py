"""A pytest process and the CPU time that it took."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plugin.installation import Installation

# Byte code is kept, as it is where people run tests every day.
_NOT_AS_USERS_HAVE_IT = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTEST_ADDOPTS")


@dataclass(frozen=True)
class PytestProcess:
    """Runs pytest in a folder, with no plugins but those named by their entry points."""

    folder: Path
    installation: Installation
    plugins: Collection[str] = ()

    def cpu_seconds(self, options: Sequence[str] = (), *, must_pass: bool = True) -> float:
        """Run once and return the CPU seconds, user and system. Raises RuntimeError if tests fail."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *self._blocked(), *options]
        environment = {key: value for key, value in os.environ.items() if key not in _NOT_AS_USERS_HAVE_IT}
        environment["PYTHONPATH"] = os.pathsep.join(self.installation.path)
        before = _children()
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env=environment)
        if must_pass and done.returncode:
            output = done.stdout[-2000:] + done.stderr[-2000:]
            raise RuntimeError(f"{' '.join(command)} in {self.folder} failed:\n{output}")
        return _children() - before

    def _blocked(self) -> list[str]:
        names = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")} - set(self.plugins)
        return [word for name in sorted(names) for word in ("-p", f"no:{name}")]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
