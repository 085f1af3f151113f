from __future__ import annotations

import os
import time

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore, removals

DAY = 86400.0
NOW = time.time()


@pytest.fixture
def recorded(place):
    """Write a run that started some days ago."""

    def write(process, days, graphs, ends=True):
        store = RecordingStore(place)
        index = store.new_index(StartRecord(process, [], [], {}, started=NOW - days * DAY))
        for graph in graphs:
            store.keep(graph * 64, f"text {graph}\n")
            index.add(GraphRecord("t", 0, "symbolic", "M", graph * 64))
        if ends:
            index.add(EndRecord(1, len(graphs)))
        index.close()
        return store

    return write


def removed(store, days, now=NOW + 2 * DAY):
    found = removals(store, days * DAY, now)
    for each in found:
        each.remove()
    names = [file.path.partition(".")[0].replace("a" * 64, "a").replace("b" * 64, "b") for file in found[0].files]
    return [*dict.fromkeys(names)]  # in an object store, an index has parts


def test_an_old_index_goes_with_the_graphs_that_only_it_needs(recorded, place):
    recorded("1-old", 40, "ab")
    store = recorded("1-new", 1, "b")

    assert removed(store, 30) == ["index/1-old", "graphs/a"]

    assert RecordingStore(place).text("b" * 64) == "text b\n"
    with pytest.raises(RecordingError, match="there is none"):
        RecordingStore(place).text("a" * 64)
    assert [name for name, _ in RecordingStore(place).indexes()] == ["1-new"]
    assert removed(RecordingStore(place), 30) == []


def test_a_graph_of_the_last_day_stays_because_its_index_may_come(recorded):
    recorded("1-old", 40, "a")
    assert removed(recorded("1-new", 1, "b"), 30, now=NOW) == ["index/1-old"]


def test_a_graph_without_an_index_goes_a_day_after_it_was_written(recorded):
    store = recorded("1-new", 1, "b")
    store.keep("a" * 64, "text a\n")
    assert removed(store, 30, now=NOW) == []
    assert removed(store, 30, now=NOW + 2 * DAY) == ["graphs/a"]


def test_an_index_that_cannot_be_read_stops_the_removal(tmp_path):
    store = RecordingStore(str(tmp_path))
    store.keep("a" * 64, "text")
    store.new_index(StartRecord("1-a", [], [], {}, started=1.0)).close()
    (tmp_path / "index" / "1-b.jsonl").write_text("no record\n")
    with pytest.raises(RecordingError, match=r"cannot read .*1-b\.jsonl, line 1"):
        removals(store, DAY, NOW)
    assert len([*tmp_path.glob("*/*")]) == 3


def test_what_a_killed_process_left_half_written_goes_after_a_day(tmp_path):
    store = RecordingStore(str(tmp_path))
    store.new_index(StartRecord("1-a", [], [], {}))
    store.keep("a" * 64, "text")
    left = tmp_path / "graphs" / ".0123.fxgraph-tmp"
    left.write_text("half")
    assert removals(store, DAY, time.time())[0].files == []
    os.utime(left, (1, 1))
    assert [each.path for each in removals(store, DAY, time.time())[0].files] == ["graphs/.0123.fxgraph-tmp"]
