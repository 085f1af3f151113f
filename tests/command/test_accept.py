from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from fixtures.documents import document
from pytest_fxgraph.command import accept
from pytest_fxgraph.command.main import main
from pytest_fxgraph.command.received import shown_names
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.files import Received, golden_digest, received_path, write_received
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_file import TableFile
from pytest_fxgraph.goldens.table_rows import Row

OLD = "%x = input x\n%a = torch.relu(%x)\nreturn %a"
NEW = "%x = input x\n%a = torch.gelu(%x)\nreturn %a"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def receive(name: str, received: str, expected: str | None = OLD) -> Path:
    """Write a golden and what was received for it; return the golden's path."""
    golden = Path("golden/tests/test_net", f"{name}.yaml")
    golden.parent.mkdir(parents=True, exist_ok=True)
    digest = None
    if expected is not None:
        golden.write_text(encode(document(expected)), encoding="utf-8")
        digest = golden_digest(golden.read_bytes())
    text = write_received(Received(encode(document(received)), digest))
    received_path(golden).write_text(text, encoding="utf-8")
    return golden


def run(capsys, *arguments: str) -> tuple[int, list[str], str]:
    status = main(["accept", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def received_files() -> list[str]:
    return sorted(path.name for path in Path("golden").rglob("*.received.yaml"))


def test_nothing_received_is_said_and_exits_with_0(capsys):
    Path("golden").mkdir()

    assert run(capsys) == (0, ["nothing was received below golden"], "")


def test_one_cause_in_many_goldens_is_listed_once(capsys):
    receive("test_a", NEW)
    receive("test_b", NEW.replace("%a", "%other"))
    receive("test_c", OLD.replace("torch.relu(%x)", "torch.relu(%x, inplace=True)"))

    status, out, _ = run(capsys)

    assert status == 1
    assert [line.partition("  ")[0] for line in out if line[0].isdigit()] == ["1", "2"]
    assert "2 goldens: torch.relu -> torch.gelu" in out[0]
    assert out[1:3] == ["     golden/tests/test_net/test_a.yaml", "     golden/tests/test_net/test_b.yaml"]
    assert "1 golden: " in out[3]


def test_a_cluster_is_accepted_by_its_key_and_the_others_wait(capsys):
    first, second, third = receive("test_a", NEW), receive("test_b", NEW), receive("test_c", NEW, "return 1")
    key = run(capsys)[1][0].split("  ")[1]

    status, out, _ = run(capsys, "--cluster", key)

    assert (status, out) == (0, [f"accepted {first.as_posix()}", f"accepted {second.as_posix()}"])
    assert first.read_text() == second.read_text() == encode(document(NEW))
    assert third.read_text() == encode(document("return 1"))
    assert received_files() == ["test_c.received.yaml"]


def test_json_lists_the_clusters_and_then_what_was_accepted(capsys):
    golden = receive("test_a", NEW).as_posix()
    status, out, _ = run(capsys, "--json")
    (cluster,) = json.loads("\n".join(out))
    assert (status, cluster["goldens"]) == (1, [golden])
    assert cluster["headline"].startswith("torch.relu -> torch.gelu")

    status, out, _ = run(capsys, "--json", "--cluster", cluster["key"])

    assert (status, json.loads("\n".join(out))) == (0, {"accepted": [golden]})
    assert json.loads("\n".join(run(capsys, "--json")[1])) == []


def test_a_cluster_is_accepted_by_its_number(capsys):
    receive("test_a", NEW)

    assert run(capsys, "--cluster", "1")[0] == 0
    assert received_files() == []


@pytest.mark.parametrize("choice", ["0", "2", "ffffff", "-1", "²", ""])
def test_a_cluster_that_does_not_exist_is_refused(capsys, choice):
    receive("test_a", NEW)

    status, out, err = run(capsys, f"--cluster={choice}")

    assert (status, out) == (2, [])
    assert err.startswith(f"fxgraph: cannot accept cluster {choice!r}: there is none")
    assert received_files() == ["test_a.received.yaml"]


@pytest.mark.parametrize(
    "pattern",
    [
        "golden/tests/test_net/test_a.yaml",
        "golden/tests/test_net/test_a.received.yaml",
        "./golden/tests/test_net/test_a*",
        "golden/*/test_a.yaml",
        "golden/**/test_a*.yaml",
        "*test_a.yaml",
    ],
)
def test_a_golden_is_accepted_by_path_or_pattern(capsys, pattern):
    receive("test_a", NEW)
    receive("test_b", NEW)

    status, out, _ = run(capsys, pattern)

    assert (status, out) == (0, ["accepted golden/tests/test_net/test_a.yaml"])
    assert received_files() == ["test_b.received.yaml"]


def test_a_golden_is_named_from_the_working_directory_or_from_rootdir(capsys, monkeypatch):
    Path("pytest.ini").touch()
    receive("test_a", NEW)
    receive("test_b", NEW)
    monkeypatch.chdir("golden/tests/test_net")

    assert run(capsys, "test_a.yaml")[0] == 0
    assert run(capsys, "golden/tests/test_net/test_b.yaml")[0] == 0
    assert [path.name for path in Path().glob("*.received.yaml")] == []


def test_a_golden_of_another_folder_is_found_at_any_depth(capsys):
    receive("test_a", NEW)
    Path("golden").rename("other")

    assert run(capsys, "other/**/test_a.yaml")[1] == ["accepted other/tests/test_net/test_a.yaml"]


def test_of_many_goldens_of_one_cause_five_are_named():
    assert shown_names("abcde", "- ") == ["- a", "- b", "- c", "- d", "- e"]
    assert shown_names("abcdefg", "- ") == ["- a", "- b", "- c", "- d", "- e", "- and 2 more"]


def test_a_folder_stands_for_all_that_is_in_it(capsys):
    receive("test_a", NEW)
    receive("test_b", NEW, None)

    assert run(capsys, "golden/tests")[1] == [
        "accepted golden/tests/test_net/test_a.yaml",
        "accepted golden/tests/test_net/test_b.yaml",
    ]


def test_a_pattern_that_matches_nothing_is_refused_before_anything_is_accepted(capsys):
    receive("test_a", NEW)

    status, _, err = run(capsys, "golden/**", "golden/tests/test_other/*")

    assert status == 2
    assert err.startswith("fxgraph: cannot accept 'golden/tests/test_other/*': nothing was received for such a golden")
    assert received_files() == ["test_a.received.yaml"]


def test_a_golden_that_was_not_there_is_written(capsys):
    golden = receive("test_a", NEW, None)

    listed = run(capsys)[1]
    assert listed[0].endswith("1 golden: there is no golden yet")
    assert "look at the first with `fxgraph show golden/tests/test_net/test_a.received.yaml`" in listed
    assert run(capsys, str(golden))[0] == 0
    assert golden.read_text() == encode(document(NEW))


@pytest.mark.parametrize("expected", [OLD, None])
def test_a_golden_that_changed_since_is_left_and_the_others_are_accepted(capsys, expected):
    golden = receive("test_a", NEW, expected)
    receive("test_b", NEW)
    golden.write_text(encode(document("return 1")))

    status, out, err = run(capsys, "golden")

    assert status == 2
    assert out == ["accepted golden/tests/test_net/test_b.yaml"]
    assert "test_a.yaml is no longer the golden that it was compared with; run the test again with" in err
    assert golden.read_text() == encode(document("return 1"))
    assert received_files() == ["test_a.received.yaml"]


def test_the_list_names_a_golden_that_changed_since_and_no_command_that_would_refuse_it(capsys):
    golden = receive("test_a", NEW)
    golden.write_text(encode(document("return 1")))

    status, out, _ = run(capsys)

    assert status == 1
    assert out[2:] == [
        "golden/tests/test_net/test_a.yaml is no longer the golden that was compared; run its test again with "
        "pytest --fx-received"
    ]

    receive("test_b", OLD.replace("torch.relu(%x)", "torch.relu(%x, inplace=True)"))
    command = run(capsys)[1][-1].partition("`")[2].strip("`").split()[2:]
    assert run(capsys, *command)[:2] == (0, ["accepted golden/tests/test_net/test_b.yaml"])


def test_line_ends_of_windows_are_no_change(capsys):
    golden = receive("test_a", NEW)
    golden.write_bytes(b"\xef\xbb\xbf" + golden.read_bytes().replace(b"\n", b"\r\n"))

    assert run(capsys, "golden")[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# received", "#received", "its first line does not say which golden it was compared with"),
        ("graph: |", "graph: ", "cannot read the golden file"),
    ],
)
def test_an_edited_received_file_is_refused(capsys, old, new, words):
    golden = receive("test_a", NEW)
    received = received_path(golden)
    received.write_text(received.read_text().replace(old, new))

    status, _, err = run(capsys, str(golden))

    assert status == 2
    assert words in err
    assert golden.read_text() == encode(document(OLD))


def test_refresh_accepts_what_is_no_difference_at_level_structure(capsys):
    receive("test_names", OLD.replace("%a", "%other"))
    receive("test_graph", NEW)

    status, out, _ = run(capsys, "--refresh")

    assert (status, out) == (0, ["accepted golden/tests/test_net/test_names.yaml"])
    assert received_files() == ["test_graph.received.yaml"]


def test_another_golden_folder_is_named(capsys):
    receive("test_a", NEW)
    Path("golden").rename("other")

    assert run(capsys, "--golden-dir", "other", "--cluster", "1")[1] == ["accepted other/tests/test_net/test_a.yaml"]


def test_two_ways_to_choose_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["accept", "--refresh", "--cluster", "1"])

    assert exit_info.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_what_a_killed_command_had_accepted_already_is_cleared_up(capsys):
    golden = receive("test_a", NEW)
    golden.write_text(encode(document(NEW)), encoding="utf-8")

    status, out, _ = run(capsys, str(golden))

    assert (status, out) == (0, [f"accepted {golden.as_posix()}"])
    assert received_files() == []
    assert golden.read_text(encoding="utf-8") == encode(document(NEW))


def test_a_folder_that_is_not_there_is_said(capsys):
    assert run(capsys, "--golden-dir", "elsewhere") == (0, ["there is no folder elsewhere here"], "")


@pytest.mark.parametrize(
    ("count", "most", "is_terminal", "is_counted"), [(21, 20, True, True), (21, 20, False, False), (2, 2, True, False)]
)
def test_of_very_many_goldens_a_terminal_gets_the_number_and_a_log_the_names(
    capsys, monkeypatch, count, most, is_terminal, is_counted
):
    for number in range(count):
        receive(f"test_{number:02}", NEW)
    assert accept._MOST_NAMED == 20
    monkeypatch.setattr(accept, "_MOST_NAMED", most)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)

    status, out, _ = run(capsys, "golden")

    names = [f"accepted golden/tests/test_net/test_{number:02}.yaml" for number in range(count)]
    assert (status, out) == (0, ["accepted 21 of 21 goldens"] if is_counted else names)
    assert received_files() == []


def test_rows_of_a_cause_are_put_into_their_table_in_one_write(capsys, monkeypatch):
    rows = [Row(f"m{number}", f"m{number}", {"nodes": number}) for number in range(5)]
    table = TableFile(GoldenStore("golden"), PurePosixPath("test_a/table.yaml"), "the table")
    cause = {"headline": "nodes 1 -> 2", "cluster": "abc123"}
    table.receive({row.name: row for row in rows}, {row.name: cause for row in rows[:4]})
    written: list[str] = []
    write = GoldenStore.write
    monkeypatch.setattr(
        GoldenStore, "write", lambda store, place, text: [written.append(str(place)), write(store, place, text)][-1]
    )

    status, lines, _ = run(capsys, "--cluster", "abc123")

    assert (status, lines) == (0, [f"accepted golden/test_a/table.yaml[m{number}]" for number in range(4)])
    assert sorted(written) == ["table.received.yaml", "table.yaml"]
    assert [*table.rows()] == ["m0", "m1", "m2", "m3"]


def test_the_causes_of_received_files_are_told_as_they_were_stored_or_compared(capsys):
    first = receive("test_same", OLD)
    stored = receive("test_stored", NEW)
    missing = receive("test_new", NEW, None)
    damaged = receive("test_damaged", NEW)
    damaged.write_text("no golden", encoding="utf-8")
    told = {"level": "ops", "headline": "as the test said", "cluster": "abc"}
    received = Received(encode(document(NEW)), golden_digest(stored.read_bytes()), told)
    received_path(stored).write_text(write_received(received), encoding="utf-8")

    _, out, _ = run(capsys)

    causes = {}
    for line in out:
        if "golden: " in line:
            cause = line.partition("golden: ")[2]
        elif line.startswith("     golden/"):
            causes[Path(line.strip()).stem] = cause
    assert causes == {
        "test_same": "no difference at level structure: names, order or code",
        "test_stored": "as the test said",
        "test_new": "there is no golden yet",
        "test_damaged": "the golden cannot be read",
    }
    assert first.exists()
    assert not missing.exists()


def test_a_row_without_a_stored_cause_is_told_by_its_columns(capsys):
    table = TableFile(GoldenStore("golden"), PurePosixPath("tests/test_net/table.yaml"), "the table")
    table.merge([Row("one", "one", {"nodes": 1}), Row("two", "two", {"nodes": 1})])
    table.receive({"one": Row("one", "one", {"nodes": 3}), "new": Row("new", "new", {"nodes": 1})})

    _, out, _ = run(capsys)

    assert sorted(line.partition("golden: ")[2] for line in out if "golden: " in line) == [
        "nodes 1 -> 3 (2 nodes more), which is worse",
        "there is no golden yet",
    ]


@pytest.mark.parametrize("inside", ["shard-1/golden/tests/test_net", "golden/tests/test_net", "tests/test_net"])
def test_received_files_of_shards_are_taken_over(capsys, inside):
    golden = receive("test_a", NEW)
    shard = Path("artifacts", inside)
    shard.mkdir(parents=True)
    received_path(golden).rename(shard / "test_a.received.yaml")

    status, out, err = run(capsys, "--from", "artifacts")

    assert (status, err) == (1, "took over 1 received file\n")
    key = out[0].split()[1]
    assert run(capsys, "--cluster", key)[:2] == (0, ["accepted golden/tests/test_net/test_a.yaml"])
    assert "torch.gelu" in golden.read_text()
    assert (shard / "test_a.received.yaml").is_file()


def test_goldens_of_several_shards_are_accepted_at_once(capsys):
    goldens = [receive(name, NEW) for name in ("test_a", "test_b")]
    for number, golden in enumerate(goldens):
        shard = Path(f"shard-{number}", golden.parent)
        shard.mkdir(parents=True)
        received_path(golden).rename(shard / received_path(golden).name)

    status, out, _ = run(capsys, "--from", "shard-0", "--from", "shard-1", "golden")

    assert (status, out) == (0, [f"accepted {golden.as_posix()}" for golden in goldens])


def test_a_new_golden_is_taken_over_where_its_test_file_is(capsys):
    golden = receive("test_a", NEW, expected=None)
    Path("tests").mkdir()
    Path("tests/test_net.py").touch()
    Path("shard/tests/test_net").mkdir(parents=True)
    received_path(golden).rename("shard/tests/test_net/test_a.received.yaml")

    assert run(capsys, "--from", "shard", "golden")[:2] == (0, ["accepted golden/tests/test_net/test_a.yaml"])


def test_two_shards_that_differ_are_refused_before_anything_is_copied(capsys):
    for name, text in (("shard-1", NEW), ("shard-2", NEW.replace("gelu", "selu"))):
        golden = receive("test_a", text)
        folder = Path(name, "tests/test_net")
        folder.mkdir(parents=True)
        received_path(golden).rename(folder / "test_a.received.yaml")

    status, _, err = run(capsys, "--from", "shard-1", "--from", "shard-2")

    assert status == 2
    assert err == (
        "fxgraph: cannot accept shard-2/tests/test_net/test_a.received.yaml: "
        "shard-1/tests/test_net/test_a.received.yaml holds another graph for the same golden; find the reason why the "
        "two runs differ, and remove one of the files\n"
    )
    assert received_files() == []


def test_a_folder_without_received_files_and_a_file_of_no_golden_are_refused(capsys):
    Path("shard").mkdir()
    assert run(capsys, "--from", "shard")[2] == (
        "fxgraph: cannot accept from shard: it holds no *.received.yaml; name the unpacked folder\n"
    )
    assert run(capsys, "--from", "shrad")[2] == (
        "fxgraph: cannot accept from shrad: there is no such folder; name the unpacked folder\n"
    )
    Path("shard/test_x.received.yaml").touch()
    assert run(capsys, "--from", "shard")[2] == (
        "fxgraph: cannot accept shard/test_x.received.yaml: there is no golden and no test file of its name here; "
        "change the folder\n"
    )
