"""What GitHub's job summary gets, and why it may get nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.gate.attempt import GoldenAttempt, attach_properties
from pytest_fxgraph.gate.build_service import (
    _TOPS,
    annotation_lines,
    append_job_summary,
    code_quality,
    top_folder,
)
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

REPORT = RunReport("1 golden matched", RunRecord(had_path_arguments=False, finished=True))
TEXT = "## Graphs and goldens: 1 golden matched\n\n"


@pytest.fixture
def summary(tmp_path, monkeypatch):
    """The file that GitHub reads."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def test_a_report_follows_on_what_is_there(summary):
    assert append_job_summary(REPORT) == str(summary)
    append_job_summary(REPORT)

    assert summary.read_text(encoding="utf-8") == f"{TEXT}\n\n{TEXT}"


@pytest.mark.parametrize("name", ["GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"])
def test_elsewhere_nothing_is_written(summary, monkeypatch, name):
    monkeypatch.delenv(name)

    assert append_job_summary(REPORT) is None
    assert not summary.exists()


@pytest.mark.parametrize("room", [3_999, 4_000])
def test_a_report_is_added_while_there_are_4000_bytes_of_room(summary, room):
    summary.write_bytes(b"x" * (1_048_576 - 2 - room))

    if room < 4_000:
        with pytest.raises(ReportError, match="run pytest in a step of its own"):
            append_job_summary(REPORT)
    else:
        append_job_summary(REPORT)
        assert summary.read_bytes().endswith(b"x\n\n" + TEXT.encode())


def test_a_summary_that_is_full_is_left_as_it_is(summary):
    summary.write_bytes(b"x" * 1_048_000)

    with pytest.raises(ReportError, match=r"1048000 of the 1048576 bytes .*; run pytest in a step of its own"):
        append_job_summary(REPORT)
    assert summary.stat().st_size == 1_048_000


def test_a_summary_that_cannot_be_written_is_an_error_with_the_reason(summary):
    summary.mkdir()

    with pytest.raises(ReportError, match=r"cannot write the job summary .*: .*; make room or give permission"):
        append_job_summary(REPORT)


def test_what_matched_has_no_properties_and_many_goldens_have_not_too_many():
    attempt, report = GoldenAttempt(), SimpleNamespace(user_properties=[("mine", 1)])
    attempt.outcomes = [Outcome("t", f"{n}.yaml", "exact", "matched") for n in range(3)]
    attach_properties(attempt, report)
    assert report.user_properties == [("mine", 1)]

    attempt.outcomes = [Outcome("t", f"{n}.yaml", "exact", "mismatch") for n in range(100)]
    attach_properties(attempt, report)
    assert len(report.user_properties) == 1 + 20 * 4


@pytest.mark.parametrize(
    ("named", "has_repository", "top"),
    [
        ("there", True, "there"),
        ("missing", True, "root"),
        ("", True, "root"),
        (None, False, "root/inner"),
    ],
)
def test_paths_start_at_the_folder_of_the_service_else_at_the_repository_else_at_rootdir(
    tmp_path, monkeypatch, named, has_repository, top
):
    for name in _TOPS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "there").mkdir()
    (tmp_path / "root" / "inner").mkdir(parents=True)
    if has_repository:
        (tmp_path / "root" / ".git").mkdir()
    if named is not None:
        monkeypatch.setenv(_TOPS[-1], str(tmp_path / named) if named else "")

    assert top_folder(tmp_path / "root" / "inner") == tmp_path / top


def test_goldens_of_one_cause_are_one_command_for_github_and_an_entry_each_for_gitlab(tmp_path):
    (tmp_path / "t.py").touch()
    config: Any = SimpleNamespace(rootpath=tmp_path, invocation_params=SimpleNamespace(dir=tmp_path))
    outcomes = [Outcome("t.py::t", f"{n}.yaml", "exact", "mismatch", "a -> b", cluster="3f") for n in range(3)]
    report = RunReport("3 goldens differ", RunRecord(had_path_arguments=False, finished=True), outcomes)

    assert len(annotation_lines(report, {}, config)) == 1
    assert len(json.loads(code_quality(report, {"t.py::t": ("t.py", 1)}, config))) == 3
