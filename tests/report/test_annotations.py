"""What differs is told at the line of the model's source."""

from __future__ import annotations

import json
import re

import pytest

from pytest_fxgraph.report.annotations import (
    MOST_ON_GITHUB,
    Annotation,
    Folders,
    annotations_of_run,
    code_quality_text,
    github_commands,
)
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import NumericFailure, PathStep
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

RECORD = RunRecord(had_path_arguments=False, finished=True)
PLACES = {"tests/test_net.py::test_net": ("tests/test_net.py", 7)}


@pytest.fixture
def folders(tmp_path):
    for name in ("src/model.py", "tests/test_net.py", "other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return Folders(started_in=tmp_path / "src", rootdir=tmp_path, top=tmp_path)


def outcome(golden: str, file: str | None = "model.py", cluster: str = "", headline: str = "a -> b") -> Outcome:
    changes = ({"file": file, "line": 3},) if file else ()
    nodeid = "tests/test_net.py::test_net"
    return Outcome(
        nodeid, golden, "structure", "mismatch", headline, cluster=cluster, changes=changes, command="pytest x"
    )


def found(folders, *outcomes, by_cause=True, **more):
    return annotations_of_run(RunReport("", RECORD, outcomes, **more), PLACES, folders, by_cause=by_cause)


def test_a_difference_stands_at_the_line_of_the_model_relative_to_the_repository(folders):
    (annotation,) = found(folders, outcome("g.yaml"))

    assert annotation.place == ("src/model.py", 3)
    assert [*github_commands([annotation])] == [
        "::error file=src/model.py,line=3,title=golden g.yaml::a -> b%0Aaccept with: pytest x"
    ]


@pytest.mark.parametrize("file", [None, "gone.py", "../../outside.py", "/etc/hostname"])
def test_where_the_line_is_not_known_or_not_in_the_repository_it_stands_at_the_test(folders, file):
    (annotation,) = found(folders, outcome("g.yaml", file))

    assert annotation.place == ("tests/test_net.py", 7)


def test_goldens_of_one_cause_have_one_annotation(folders):
    (annotation,) = found(folders, *(outcome(f"{n}.yaml", cluster="abc123") for n in range(9)))

    assert annotation.title == "9 goldens differ in the same way"
    assert annotation.lines == (
        "a -> b",
        *(f"{n}.yaml" for n in range(5)),
        "and 4 more",
        "accept all 9 goldens of this cause with: fxgraph accept --cluster abc123",
    )


def test_what_matched_or_was_written_has_none(folders):
    matched, updated = (Outcome("t", "g", "structure", status) for status in ("matched", "updated"))

    assert found(folders, matched, updated) == []


def test_a_numeric_failure_stands_where_eager_and_graph_part(folders):
    path = (PathStep("agrees", "mul", source="other.py:1: y"), PathStep("first", "relu", source="model.py:9: z"))
    failure = NumericFailure("tests/test_net.py::test_net", "they differ", "they differ\nby much", path=path)

    (annotation,) = found(folders, failures=[failure])
    (unknown,) = found(folders, failures=[NumericFailure("tests/test_net.py::test_net", "they differ", "")])

    assert (annotation.place, annotation.lines) == (("src/model.py", 9), ("they differ", "by much"))
    assert unknown.place == ("tests/test_net.py", 7)


@pytest.mark.parametrize("text", ["x\n::error::owned", "x\r\n##[error]owned", "a::b,c=d%0A::set-output", "\x1b[31m::"])
def test_no_text_begins_another_workflow_command(text):
    annotation = Annotation("golden", text, (text, text), (text, 1), "key")

    (command,) = github_commands([annotation])

    properties, message = re.fullmatch(r"::error ([^\n\r]*?)::([^\n\r]*)", command).groups()
    assert re.fullmatch(r"file=[^,:]*,line=1,title=[^,:]*", properties)
    assert not re.search(r"%(?!25|0A|3A|2C)", properties + message)
    assert not re.search(r"(?:^|%0A)\s*::|##\[", message)


def test_github_gets_as_many_errors_as_it_shows_and_a_count_of_the_rest():
    commands = [*github_commands([Annotation("golden", "t", ("m",), ("f", 1), "k")] * 14)]

    assert sum(command.startswith("::error ") for command in commands) == MOST_ON_GITHUB == 10
    assert commands[10:] == [
        "::notice title=pytest-fxgraph::4 more differences of graphs have no annotation; "
        "the job summary and the log have all"
    ]


def test_the_code_quality_report_has_an_entry_for_each_golden(folders):
    told = found(folders, *(outcome(f"{n}.yaml", cluster="abc123") for n in range(2)), by_cause=False)

    first, second = json.loads(code_quality_text(told))

    assert first["description"] == "golden 0.yaml: a -> b; accept with: pytest x"
    assert first["location"] == {"path": "src/model.py", "lines": {"begin": 3}}
    assert (first["check_name"], first["severity"]) == ("fxgraph-golden", "major")
    assert first["fingerprint"] != second["fingerprint"]


def test_a_fingerprint_is_the_same_when_lines_move(folders):
    moved = Outcome(
        "t", "g.yaml", "structure", "mismatch", cluster="abc123", changes=({"file": "model.py", "line": 9},)
    )

    keys = [found(folders, each)[0].key for each in (outcome("g.yaml", cluster="abc123"), moved)]

    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (1, ("a -> b", "accept with: pytest x")),
        (2, ("a -> b", "0.yaml", "1.yaml", "accept all 2 goldens of this cause with: fxgraph accept --cluster abc123")),
    ],
)
def test_one_golden_is_accepted_by_its_command_and_several_by_their_cluster(folders, count, lines):
    (annotation,) = found(folders, *(outcome(f"{n}.yaml", cluster="abc123") for n in range(count)))

    assert annotation.lines == lines


def test_the_first_change_with_a_line_gives_the_place_and_lines_begin_at_1(folders):
    changes = ({"file": "model.py", "line": None}, {"file": None, "line": 2}, {"file": "model.py", "line": 4})
    (annotation,) = found(folders, Outcome("t", "g.yaml", "structure", "mismatch", changes=changes))

    assert annotation.place == ("src/model.py", 4)
    assert folders.place("other.py", 0, folders.rootdir) == ("other.py", 1)


@pytest.mark.parametrize("source", ["model.py", "model.py:nine: z", ":9: z", ""])
def test_a_failure_without_a_line_stands_at_the_test(folders, source):
    failure = NumericFailure("tests/test_net.py::test_net", "they differ", "", source=source)

    assert found(folders, failures=[failure])[0].place == ("tests/test_net.py", 7)


def test_ten_annotations_are_all_that_there_are():
    ten, eleven = ([*github_commands([Annotation("golden", "t", ("m",), ("f", 1), "k")] * n)] for n in (10, 11))
    assert len(ten) == 10
    assert eleven[10].startswith("::notice title=pytest-fxgraph::1 more ")


@pytest.mark.parametrize(("length", "end"), [(3_000, "mm"), (3_001, "mm ...")])
def test_a_message_on_github_has_a_limit(length, end, monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.report.annotations._LONGEST_MESSAGE", 3_000)

    (command,) = github_commands([Annotation("golden", "t", ("m" * length,), ("f", 1), "k")])

    assert command.endswith(end)


def test_the_code_quality_report_is_indented_by_one():
    text = code_quality_text(
        [Annotation("golden", "t", ("m",), ("f", 1), "k"), Annotation("golden", "t", (), None, "k")]
    )

    assert text.startswith('[\n {\n  "description": "t: m",\n')
    assert len(json.loads(text)) == 1
