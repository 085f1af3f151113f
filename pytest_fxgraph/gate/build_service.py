"""Messages to the service that builds a project: GitHub's annotations and job summary, GitLab's code quality."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.gate.paths import started_in
from pytest_fxgraph.goldens.layout import nearest_with
from pytest_fxgraph.report.annotations import Folders, Place, annotations_of_run, code_quality_text, github_commands
from pytest_fxgraph.report.json_report import RunReport

CODE_QUALITY = ".codequality.json"  # the end of a code quality report's name
_TOPS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
_SUMMARY = "GITHUB_STEP_SUMMARY"
_LEAST = 4_000  # bytes; with less room a job summary says too little


def on_github() -> bool:
    """Tell whether GitHub Actions runs this process."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotation_lines(report: RunReport, places: Mapping[str, Place], config: pytest.Config) -> list[str]:
    """Return the commands for GitHub that show differences at lines of the model, one command for each cause."""
    return [*github_commands(annotations_of_run(report, places, _folders(config), by_cause=True))]


def code_quality(report: RunReport, places: Mapping[str, Place], config: pytest.Config) -> str:
    """Return the report of code quality for GitLab, an entry for each golden."""
    return code_quality_text(annotations_of_run(report, places, _folders(config), by_cause=False))


def append_job_summary(report: RunReport) -> str | None:
    """Append the report to the summary of GitHub's job; return where it is, None outside of GitHub Actions.

    Raises ReportError if it cannot be written, or if earlier commands of the step left no room.
    """
    path = os.environ.get(_SUMMARY)
    if not path or not on_github():
        return None
    from pytest_fxgraph.draw.run_markdown import MOST_OF_SUMMARY, run_markdown

    try:
        taken = os.path.getsize(path) if os.path.exists(path) else 0
        room = MOST_OF_SUMMARY - taken - 2
        if room < _LEAST:
            raise ReportError(
                f"cannot add to the job summary: {taken} of the {MOST_OF_SUMMARY} bytes that GitHub takes are used by "
                "earlier commands of this step; run pytest in a step of its own"
            )
        with open(path, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(("\n\n" if taken else "") + run_markdown(report, room))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ReportError(f"cannot write the job summary {path}: {reason}; make room or give permission") from None
    return path


def _folders(config: pytest.Config) -> Folders:
    return Folders(Path(started_in(config)), Path(config.rootpath), top_folder(Path(config.rootpath)))


def top_folder(rootdir: Path) -> Path:
    """Return the repository's folder: the service's answer, else the nearest folder with .git, else rootdir."""
    for name in _TOPS:
        named = os.environ.get(name)
        if named and os.path.isdir(named):
            return Path(named)
    return nearest_with(rootdir, ".git") or rootdir
