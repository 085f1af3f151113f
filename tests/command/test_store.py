from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from pytest_fxgraph.command.main import main, parsed
from pytest_fxgraph.command.store import _shown_size
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, LeftOutRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore

A, B = "a" * 64, "b" * 64


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(process, *records, days=0.0, ends=True):
        store = RecordingStore("rec")
        index = store.new_index(StartRecord(process, [], [], {}, started=time.time() - days * 86400))
        for record in (*records, *([EndRecord(1, 1)] if ends else [])):
            if isinstance(record, GraphRecord):
                store.keep(record.graph, "x" * 2000)
            index.add(record)
        index.close()

    write(
        "1-a",
        GraphRecord("t", 0, "symbolic", "M", A),
        GraphRecord("t", 1, "symbolic", "M", A),
        LeftOutRecord("t", "export", "M", "why"),
        OutcomeRecord("t", "passed"),
        days=40,
    )
    return write


def test_a_recording_is_shown_with_its_sizes(recorded, capsys):
    assert main(["store", "show", "rec"]) == 0
    words = capsys.readouterr().out.splitlines()
    assert words[0] == "rec"
    assert words[1].startswith("1 run, started from ")
    assert words[2:] == [
        "1 test, 2 records of graphs",
        f"1 graph in 2.1 kB, and {index_size('1-a')} of indexes",
        "1 graph could not be kept",
    ]


def index_size(process):
    size = Path(f"rec/index/{process}.jsonl").stat().st_size
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB"


def test_what_is_wrong_with_a_recording_is_shown(recorded, capsys):
    recorded("1-b", GraphRecord("t", 0, "symbolic", "M", B), OutcomeRecord("t", "passed"), ends=False)
    shutil.rmtree("rec/graphs")

    assert main(["store", "show", "rec"]) == 0

    assert capsys.readouterr().out.splitlines()[4:] == [
        "1 without an end, so its process was cut off: 1-b",
        "1 with other graphs or another outcome in another process: t",
        f"1 missing: copy the recording again, or record the run again: {B}",
    ]


def test_the_facts_are_json_for_programs(recorded, capsys):
    main(["store", "show", "--json", "rec"])
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tests"], facts["graph_records"], facts["graphs"], facts["left_out"]) == (1, 2, 1, 1)
    assert facts["graph_bytes"] == 2000 + len(f"# graph {A} sha256:{A}\n")
    assert (facts["cut_off"], facts["missing"], facts["unneeded"]) == ([], [], 0)
    assert facts["runs"][0]["process"] == "1-a"


def test_old_runs_are_removed_and_named_with_their_sizes(recorded, tmp_path, capsys, monkeypatch):
    recorded("1-b", GraphRecord("t", 0, "symbolic", "M", B), OutcomeRecord("t", "passed"))
    old = index_size("1-a")
    future = time.time() + 2 * 86400
    monkeypatch.setattr(time, "time", lambda: future)

    assert main(["store", "prune", "--older-than", "30d", "--dry-run", "rec"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"would remove rec/index/1-a.jsonl ({old})"
    assert len([*tmp_path.glob("rec/*/*")]) == 4

    assert main(["store", "prune", "--older-than", "30d", "rec"]) == 0
    words = capsys.readouterr().out.splitlines()
    assert words[:2] == [f"removed rec/index/1-a.jsonl ({old})", f"removed rec/graphs/{A}.yaml (2.1 kB)"]
    assert words[2].startswith("freed 2.")
    assert words[2].endswith(" kB in 2 files")
    assert sorted(each.name for each in tmp_path.glob("rec/*/*")) == ["1-b.jsonl", f"{B}.yaml"]

    assert main(["store", "prune", "--older-than", "30d", "--json", "rec"]) == 0
    assert json.loads(capsys.readouterr().out) == {"is_dry_run": False, "removed": [], "bytes": 0}


def test_another_word_than_an_age_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["store", "prune", "--older-than", "month", "rec"])
    assert "'month' is no age; write a number and s, m, h, d or w, for example 30d" in capsys.readouterr().err


def test_a_place_without_a_recording_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["store", "show", "rec"]) == 2
    assert capsys.readouterr().err == ("fxgraph: rec holds no recording; write one by pytest --fx-record rec\n")


@pytest.mark.parametrize(
    ("age", "seconds"), [("5s", 5), ("2m", 120), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("0d", 0)]
)
def test_an_age_is_a_number_of_seconds_minutes_hours_days_or_weeks(age, seconds):
    assert parsed(["store", "prune", "--older-than", age, "rec"]).older_than == seconds


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_900, "999.9 kB"),
        (1_000_000, "1.0 MB"),
        (2_500_000_000, "2,500.0 MB"),
    ],
)
def test_sizes_are_told_in_bytes_kilobytes_and_megabytes(size, words):
    assert _shown_size(size) == words


def test_nothing_is_pruned_without_an_age(recorded, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["store", "prune", "rec"])

    assert ended.value.code == 2
    assert "--older-than" in capsys.readouterr().err
