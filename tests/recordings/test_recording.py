from __future__ import annotations

import shutil

import pytest

from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, LeftOutRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore


@pytest.fixture
def write(tmp_path):
    def write(process, *records, started=1.0, ends=True):
        index = RecordingStore(str(tmp_path)).new_index(StartRecord(process, [], [], {}, started=started))
        for record in (*records, *([EndRecord(1, 1)] if ends else [])):
            index.add(record)
        index.close()

    return write


@pytest.fixture
def read(tmp_path):
    return lambda: Recording.read(RecordingStore(str(tmp_path)))


def graph(test, content, order=0, line=""):
    return GraphRecord(test, order, "symbolic", "M", content, line)


def graphs_of(recording):
    return {name: [each.graph for each in test.graphs] for name, test in recording.tests.items()}


def test_tests_of_all_processes_come_together(write, read):
    write("1-a", graph("t", "x"), OutcomeRecord("t", "passed"))
    write("1-b", graph("u", "y"), LeftOutRecord("u", "export", "M", "why"), OutcomeRecord("u", "failed"), started=0.5)
    recording = read()
    assert graphs_of(recording) == {"t": ["x"], "u": ["y"]}
    assert [recording.tests[name].outcome for name in "tu"] == ["passed", "failed"]
    assert recording.tests["u"].left_out == [LeftOutRecord("u", "export", "M", "why")]
    assert [each.process for each in recording.runs] == ["1-b", "1-a"]
    assert (recording.cut_off, recording.disagreeing) == ([], [])


def test_a_process_without_its_end_was_cut_off_and_its_last_test_has_no_outcome(write, read):
    write("1-a", graph("t", "x"), OutcomeRecord("t", "passed"), graph("u", "y"), ends=False)
    recording = read()
    assert recording.cut_off == ["1-a"]
    assert graphs_of(recording) == {"t": ["x"], "u": ["y"]}
    assert [recording.tests[name].outcome for name in "tu"] == ["passed", ""]


def test_of_the_reruns_in_one_process_the_last_attempt_counts(write, read):
    write(
        "1-a",
        graph("t", "x"),
        LeftOutRecord("t", "export", "M", "why"),
        OutcomeRecord("t", "rerun"),
        graph("t", "y"),
        OutcomeRecord("t", "passed"),
    )
    test = read().tests["t"]
    assert ([each.graph for each in test.graphs], test.left_out, test.outcome) == (["y"], [], "passed")


def test_a_test_that_begins_once_more_in_its_process_is_another_attempt(write, read):
    write(
        "1-a",
        OutcomeRecord("t", ""),
        graph("t", "x"),
        OutcomeRecord("t", "failed"),
        OutcomeRecord("t", ""),
        graph("t", "y"),
        OutcomeRecord("t", "passed"),
    )
    recording = read()
    assert graphs_of(recording) == {"t": ["y"]}
    assert recording.tests["t"].outcome == "passed"


def test_a_test_that_began_and_was_cut_off_is_there_without_an_outcome(write, read):
    write("1-a", OutcomeRecord("t", ""), ends=False)
    assert read().tests["t"].outcome == ""


def test_a_failure_stays_where_a_later_part_of_the_test_passes(write, read):
    write("1-a", OutcomeRecord("t", "failed"), OutcomeRecord("t", "passed"))
    assert read().tests["t"].outcome == "failed"


@pytest.mark.parametrize("later", ["1-a", "1-b"])
def test_of_several_processes_the_one_that_started_last_counts_and_a_disagreement_is_told(write, read, later):
    for process, content in (("1-a", "x"), ("1-b", "y")):
        write(process, graph("t", content), OutcomeRecord("t", "passed"), started=2.0 if process == later else 1.0)
    recording = read()
    assert graphs_of(recording) == {"t": ["x" if later == "1-a" else "y"]}
    assert recording.disagreeing == ["t"]


def test_equal_attempts_agree_and_another_outcome_does_not(write, read):
    write("1-a", graph("t", "x", line="a.py:1"), OutcomeRecord("t", "passed"))
    write("1-b", graph("t", "x", line="a.py:2"), OutcomeRecord("t", "passed"), started=2.0)
    assert read().disagreeing == []
    write("1-c", graph("t", "x"), OutcomeRecord("t", "failed"), started=3.0)
    assert read().disagreeing == ["t"]
    assert read().tests["t"].outcome == "failed"


def test_an_attempt_that_was_cut_off_gives_way_to_one_that_ended(write, read):
    write("1-a", graph("t", "x"), OutcomeRecord("t", "passed"))
    write("1-b", graph("t", "y"), started=2.0, ends=False)
    recording = read()
    assert graphs_of(recording) == {"t": ["x"]}
    assert recording.disagreeing == []


def test_graphs_outside_tests_are_merged_each_once(write, read):
    write("1-a", graph("", "x"), graph("", "y", 1), graph("", "x", 2))
    write("1-b", graph("", "y"), graph("", "z", 1), started=2.0)
    recording = read()
    assert graphs_of(recording) == {"": ["x", "y", "z"]}
    assert recording.disagreeing == []


def test_two_recordings_of_one_commit_in_one_place_are_as_one(write, read, tmp_path):
    write("1-a", graph("t", "x"), OutcomeRecord("t", "passed"))
    once = graphs_of(read())
    write("2-b", graph("t", "x"), OutcomeRecord("t", "passed"), started=5.0)
    shutil.copytree(tmp_path, tmp_path / "again")  # the same indexes once more, in a folder of the place
    assert graphs_of(read()) == once
    assert read().disagreeing == []
