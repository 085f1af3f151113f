"""The report of a run whose tests fail in known ways, and the texts of its page that the pictures need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parent / "project"
ROOT = Path(__file__).parents[2]


def failing_report(folder: Path) -> Path:
    """Record goldens in a folder, change the models, and return the page of the run that follows.

    Raises RuntimeError with pytest's output if no page was written.
    """
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    _pytest(folder, "--fx-update-golden")
    output = _pytest(folder, "--fx-report=report.html", changed=True)
    page = folder / "report.html"
    if not page.exists():
        raise RuntimeError(f"no page was written:\n{output}")
    return page


def _pytest(folder: Path, *options: str, changed: bool = False) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **({"CHANGED": "1"} if changed else {})}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr
