from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.place import Folder, place_at
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import IndexWriter, RecordingStore, removals

A, B = "a" * 64, "b" * 64
TEXT = "format: 3\ngraph: |\n  return ()\nend: true\n"


def run(process="1-a", started=1.0):
    return StartRecord(process, ["-q"], ["symbolic"], {"torch": "2.13.0"}, started=started)


def records(store):
    return {name: [*found] for name, found in store.indexes()}


def recorded(place, process="1-a", tests=("t",), graph=A, ends=True, started=1.0):
    """Record one graph for each test."""
    store = RecordingStore(place)
    index = store.new_index(run(process, started))
    for test in tests:
        store.keep(graph, TEXT)
        index.add(GraphRecord(test, 0, "symbolic", "M", graph))
        index.add(OutcomeRecord(test, "passed"))
        index.flush()
    if ends:
        index.add(EndRecord(len(tests), len(tests)))
    index.close()
    return store


def test_graphs_and_records_come_back(place):
    recorded(place)
    store = RecordingStore(place)
    assert store.text(A) == TEXT
    assert records(store) == {
        "1-a": [run(), GraphRecord("t", 0, "symbolic", "M", A), OutcomeRecord("t", "passed"), EndRecord(1, 1)]
    }


def test_two_processes_write_side_by_side(place):
    first, second = RecordingStore(place), RecordingStore(place)
    indexes = [first.new_index(run("1-a")), second.new_index(run("1-b"))]
    for store, index, test in zip((first, second) * 2, indexes * 2, "tuvw", strict=True):
        store.keep(A, TEXT)
        index.add(OutcomeRecord(test, "passed"))
        index.flush()
    for index in indexes:
        index.add(EndRecord(2, 0))
        index.close()
    assert {name: [each.test for each in found[1:-1]] for name, found in records(first).items()} == {
        "1-a": ["t", "v"],
        "1-b": ["u", "w"],
    }


@pytest.mark.slow
def test_many_processes_write_equal_graphs_at_once(tmp_path):
    code = (
        "import sys; from pytest_fxgraph.recordings.records import *; from pytest_fxgraph.recordings.store import *\n"
        "store = RecordingStore(sys.argv[1]); index = store.new_index(StartRecord(sys.argv[2], [], [], {}))\n"
        "for n in range(100):\n"
        "    store.keep(f'{n:064x}', f'graph {n}\\n')\n"
        "    index.add(GraphRecord(f't{n}', 0, 'fixture', 'M', f'{n:064x}'))\n"
        "    index.flush()\n"
        "index.add(EndRecord(100, 100)); index.close()"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"1-{name}"]) for name in "abcd"]
    assert [child.wait() for child in children] == [0] * 4
    store = RecordingStore(str(tmp_path))
    assert {name: len(found) for name, found in records(store).items()} == dict.fromkeys(
        ("1-a", "1-b", "1-c", "1-d"), 102
    )
    assert [store.text(f"{n:064x}") for n in (0, 99)] == ["graph 0\n", "graph 99\n"]
    assert len([*(tmp_path / "graphs").iterdir()]) == 100


def test_a_process_that_was_cut_off_keeps_the_tests_that_ended(tmp_path):
    recorded(str(tmp_path), ends=False)
    index = tmp_path / "index" / "1-a.jsonl"
    index.write_bytes(index.read_bytes() + b'{"record": "test", "te')
    assert [type(each).__name__ for each in records(RecordingStore(str(tmp_path)))["1-a"]] == [
        "StartRecord",
        "GraphRecord",
        "OutcomeRecord",
    ]


def test_a_line_in_the_middle_that_is_no_record_is_refused_with_its_place(tmp_path):
    recorded(str(tmp_path))
    index = tmp_path / "index" / "1-a.jsonl"
    lines = index.read_bytes().split(b"\n")
    index.write_bytes(b"\n".join([*lines[:1], lines[1][:20], *lines[2:]]))
    with pytest.raises(RecordingError, match=r"cannot read .*/index/1-a\.jsonl, line 2: it is no record of an index"):
        records(RecordingStore(str(tmp_path)))


def test_two_processes_of_one_name_are_refused_and_the_first_one_stays(place):
    recorded(place)
    with pytest.raises(RecordingError, match=r"cannot write .*/index/1-a.*\.jsonl: another process has this name"):
        RecordingStore(place).new_index(run())
    assert len(records(RecordingStore(place))["1-a"]) == 4


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_an_object_store_gets_a_part_at_most_every_ten_seconds():
    place, clock = place_at("memory://parts"), Clock()
    store = RecordingStore("memory://parts")
    index = IndexWriter(place, run(), clock)
    for seconds in (1, 8, 1, 2, 7):  # a part after ten seconds
        clock.now += seconds
        index.add(OutcomeRecord(f"t{clock.now:.0f}", "passed"))
        index.flush()
    assert [each.path for each in place.files("index")] == ["index/1-a.000000.jsonl", "index/1-a.000001.jsonl"]
    assert [each.test for each in records(store)["1-a"][1:]] == ["t101", "t109", "t110"]
    index.close()
    assert [each.test for each in records(store)["1-a"][1:]] == ["t101", "t109", "t110", "t112", "t119"]


def test_a_part_that_is_missing_is_told(tmp_path):
    place = place_at("memory://gap")
    index = IndexWriter(place, run())
    for _ in range(2):
        index.add(EndRecord(0, 0))
        index.close()
    place.remove("index/1-a.000001.jsonl")
    with pytest.raises(
        RecordingError, match=r"gap/index/1-a\.000002\.jsonl: part 1 of this index is missing; copy the"
    ):
        records(RecordingStore("memory://gap"))


def test_records_that_could_not_be_written_are_written_by_the_next_flush(tmp_path, monkeypatch):
    index = RecordingStore(str(tmp_path)).new_index(run())
    index.add(OutcomeRecord("t", "passed"))

    def refuse(self, path, content):
        raise RecordingError("cannot write")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "append", refuse)
        with pytest.raises(RecordingError):
            index.flush()
    index.add(OutcomeRecord("u", "passed"))
    index.flush()
    assert [each.test for each in records(RecordingStore(str(tmp_path)))["1-a"][1:]] == ["t", "u"]


def test_half_a_surrogate_pair_in_a_reason_is_written(tmp_path):
    index = RecordingStore(str(tmp_path)).new_index(run())
    index.add(OutcomeRecord("t\udc80", "passed"))
    index.close()
    assert records(RecordingStore(str(tmp_path)))["1-a"][1].test == "t\udc80"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-5], "it was cut off or changed since it was written"),
        (lambda content: content.replace(b"()", b"[]"), "it was cut off or changed since it was written"),
        (lambda content: b"", "its first line does not name the graph"),
        (lambda content: content.partition(b"\n")[2], "its first line does not name the graph"),
        (lambda content: content.replace(A.encode(), B.encode()), f"it holds the graph {B}"),
    ],
)
def test_a_damaged_graph_is_refused_and_written_again(tmp_path, damage, words):
    store = recorded(str(tmp_path))
    file = tmp_path / "graphs" / f"{A}.yaml"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RecordingError, match=f"cannot read the graph {A} of {tmp_path}: {words}.*; remove {file} and"):
        store.text(A)
    store.keep(A, TEXT)
    assert store.text(A) == TEXT


def test_a_whole_graph_stays_byte_for_byte_with_a_new_time(tmp_path):
    store = recorded(str(tmp_path))
    file = tmp_path / "graphs" / f"{A}.yaml"
    os.utime(file, (1, 1))
    store.keep(A, TEXT.replace("()", "(other words for the same graph)"))
    assert store.text(A) == TEXT
    assert file.stat().st_mtime > 1


def test_line_ends_of_windows_are_no_damage(tmp_path):
    store = recorded(str(tmp_path))
    file = tmp_path / "graphs" / f"{A}.yaml"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert store.text(A).replace("\r\n", "\n") == TEXT


def test_a_graph_that_is_missing_is_told(tmp_path):
    store = recorded(str(tmp_path))
    with pytest.raises(RecordingError, match=f"cannot read the graph {B} of {tmp_path}: there is none; copy it from"):
        store.text(B)


def test_a_place_without_a_recording_is_told_with_the_command(tmp_path):
    with pytest.raises(
        RecordingError, match=f"{tmp_path} holds no recording; write one by pytest --fx-record {tmp_path}"
    ):
        [*RecordingStore(str(tmp_path)).indexes()]


def test_recordings_merge_by_copying_one_over_the_other(tmp_path):
    recorded(str(tmp_path / "a"), "1-a", ("t",))
    recorded(str(tmp_path / "b"), "1-b", ("u", "v"))
    recorded(str(tmp_path / "b"), "1-c", ("w",), graph=B)
    for _ in range(2):  # twice does no harm
        shutil.copytree(tmp_path / "b", tmp_path / "a", dirs_exist_ok=True)
    store = RecordingStore(str(tmp_path / "a"))
    assert {name: len(found) for name, found in records(store).items()} == {"1-a": 4, "1-b": 6, "1-c": 4}
    assert store.text(A) == store.text(B) == TEXT


def test_an_index_that_was_copied_early_is_replaced_by_its_later_copy(tmp_path):
    recorded(str(tmp_path / "a"), ends=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with (tmp_path / "a" / "index" / "1-a.jsonl").open("a") as index:
        index.write(json.dumps({"record": "end", "tests": 1, "graphs": 1}) + "\n")
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    assert isinstance(records(RecordingStore(str(tmp_path / "b")))["1-a"][-1], EndRecord)


def test_a_folder_of_recordings_is_read_as_their_merge(place):
    recorded(f"{place}/shard-1", "1-a", ("t",))
    recorded(f"{place}/shard-2", "1-b", ("u",), graph=B)
    store = RecordingStore(place)
    assert sorted(records(store)) == ["1-a", "1-b"]
    assert store.text(A) == store.text(B) == TEXT


def test_a_damaged_graph_of_one_shard_is_read_from_another_one(tmp_path):
    recorded(str(tmp_path / "shard-1"), "1-a")
    recorded(str(tmp_path / "shard-2"), "1-b")
    (tmp_path / "shard-1" / "graphs" / f"{A}.yaml").write_text("cut")
    assert RecordingStore(str(tmp_path)).text(A) == TEXT


def test_a_full_disk_at_a_graph_leaves_no_half_written_file(tmp_path, monkeypatch):
    store = recorded(str(tmp_path))

    def full(path, content, *, is_synced):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pytest_fxgraph.recordings.place.replace_whole", full)
    with pytest.raises(RecordingError, match=f"cannot write {tmp_path}/graphs/{B}.yaml: no space left on device"):
        store.keep(B, TEXT)
    assert [each.name for each in (tmp_path / "graphs").iterdir()] == [f"{A}.yaml"]


def test_a_process_that_is_killed_while_it_writes_leaves_whole_graphs(tmp_path):
    code = (
        "import sys; from pytest_fxgraph.recordings.records import *; from pytest_fxgraph.recordings.store import *\n"
        "store = RecordingStore(sys.argv[1]); index = store.new_index(StartRecord('1-a', [], [], {}))\n"
        "print('begun', flush=True)\n"
        "for n in range(10**6):\n"
        "    store.keep(f'{n:064x}', 'text\\n' * 2000); index.add(GraphRecord('t', n, 'fixture', 'M', f'{n:064x}'))\n"
        "    index.flush()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    child.stdout.readline()
    while len([*(tmp_path.glob("graphs/*.yaml"))]) < 20:
        assert child.poll() is None
    child.kill()
    child.wait()
    child.stdout.close()
    store = RecordingStore(str(tmp_path))
    graphs = [each for each in records(store)["1-a"] if isinstance(each, GraphRecord)]
    assert len(graphs) > 10
    assert {store.text(each.graph) for each in graphs} == {"text\n" * 2000}


DAY = 86400.0


@pytest.mark.parametrize(
    ("older_than", "now", "removed"),
    [
        (50.0, 150.0, []),
        (49.0, 150.0, ["index/1-a.jsonl", f"graphs/{B}.yaml"]),
        (2 * DAY, DAY + 100, []),
        (2 * DAY, DAY + 101, [f"graphs/{B}.yaml"]),
    ],
)
def test_what_is_older_than_a_time_goes_and_a_needless_graph_after_a_day(tmp_path, older_than, now, removed):
    store = recorded(str(tmp_path), started=100.0)
    store.keep(B, TEXT)
    os.utime(tmp_path / "graphs" / f"{B}.yaml", (100, 100))

    (found,) = removals(store, older_than, now)

    assert [each.path for each in found.files] == removed
