from __future__ import annotations

import dataclasses
import json

import pytest

from pytest_fxgraph.command.output import plain_data
from pytest_fxgraph.draw.run_markdown import run_markdown
from pytest_fxgraph.draw.run_page import run_page
from pytest_fxgraph.recordings.records import StartRecord
from pytest_fxgraph.replay.comparison import compare_recordings
from pytest_fxgraph.replay.findings import findings_of
from pytest_fxgraph.replay.reports import data_of, environments, places_of_tests, report_of
from pytest_fxgraph.report.annotations import Folders, annotations_of_run


@pytest.fixture
def findings(recording_of, relu, sigmoid):
    before = recording_of(a=[relu], b=[relu, relu], gone=[relu])
    after = recording_of(a=[sigmoid], b=[sigmoid, relu])
    return findings_of(compare_recordings(before, after))


def test_a_report_has_an_entry_for_each_changed_graph_however_many_tests_made_it(findings):
    report = report_of(findings)

    (outcome,) = report.outcomes
    assert (outcome.golden, outcome.headline) == ("a (symbolic Model) #1", "torch.relu -> torch.sigmoid")
    assert outcome.section.endswith("the same graph in\n  b (symbolic Model)")
    assert report.sections == ["vanished test: in the base alone\n    gone"]
    assert report.summary == findings.summary
    assert report.record.finished
    assert not report_of(dataclasses.replace(findings, unknown=["cut off"])).record.finished


def test_a_page_and_a_text_show_a_replay_and_speak_of_graphs(findings):
    report = report_of(findings)

    page, text = run_page(report), run_markdown(report)

    for shown in (page, text):
        assert "torch.relu" in shown
        assert "Replay" in shown
        assert "golden" not in shown.partition("<style>")[0] + shown.partition("</style>")[2].partition("<script>")[0]
    assert "| graph | level | what differs |\n" in text


def test_annotations_speak_of_graphs(findings, tmp_path):
    (annotation,) = annotations_of_run(report_of(findings), {}, Folders(*[tmp_path] * 3), by_cause=True)

    assert (annotation.title, annotation.lines) == ("graph a (symbolic Model) #1", ("torch.relu -> torch.sigmoid",))


def test_an_annotation_stands_at_the_line_that_asked_for_the_graph(findings, tmp_path):
    (changed,) = findings.replay.changed.values()
    first = changed.places[0]
    assert places_of_tests(findings.replay) == {}
    changed.places[0] = first._replace(record=first.record._replace(line="test_it.py:12"))
    (tmp_path / "test_it.py").touch()
    places = places_of_tests(findings.replay)

    (annotation,) = annotations_of_run(report_of(findings), places, Folders(*[tmp_path] * 3), by_cause=True)

    assert annotation.place == ("test_it.py", 12)


def test_the_data_holds_everything(findings):
    data = json.loads(json.dumps(plain_data(data_of(findings, ["not expected: x"]))))

    assert (data["tests"], data["graphs"], data["same"]) == (2, 3, 1)
    assert [(each["sort"], each["words"], each["places"]) for each in data["findings"]] == [
        ("edit", "torch.relu -> torch.sigmoid", ["a (symbolic Model)", "b (symbolic Model)"]),
        ("vanished test", "in the base alone", ["gone"]),
    ]
    assert data["unexpected"] == ["not expected: x"]


def test_facts_of_the_environment_that_differ_have_both_values(findings):
    replay = findings.replay
    replay.before.runs = [StartRecord("1-a", (), (), {"torch": "2.13", "python": "3.12"})]
    replay.after.runs = [StartRecord("1-b", (), (), {"torch": "2.14", "python": "3.12"})]

    assert environments(replay) == {"torch": "2.13 -> 2.14", "python": "3.12"}
