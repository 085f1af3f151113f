"""The file of a table: runs side by side, runs that are killed, and branches of git."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.goldens.files import read_received, received_path
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_file import TableFile
from pytest_fxgraph.goldens.table_rows import Row, decode_table, digest_of, encode_table

ROOT = Path(__file__).parents[2]
KILLED = """
import os, sys
from pathlib import PurePosixPath
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_file import TableFile
from pytest_fxgraph.goldens.table_rows import Row

os.replace = lambda *_: os._exit(9)
table = TableFile(GoldenStore(sys.argv[1]), PurePosixPath("test_a/table.yaml"), "the table")
table.merge([Row("late", "late", {"nodes": 1})])
"""


def row(name: str, number: int = 1) -> Row:
    return Row(name, name, {"nodes": number})


def table_in(folder: Path) -> TableFile:
    return TableFile(GoldenStore(folder), PurePosixPath("test_a/table.yaml"), "the table")


def test_runs_side_by_side_lose_no_row(tmp_path):
    def run(name: str) -> None:
        for number in range(10):
            table_in(tmp_path).merge([row(f"{name}{number}")])

    with ThreadPoolExecutor(4) as runs:
        list(runs.map(run, "abcd"))

    assert len(table_in(tmp_path).rows()) == 40
    assert [path.name for path in tmp_path.joinpath("test_a").iterdir()] == ["table.yaml"]


def test_a_run_that_is_killed_leaves_the_old_table_and_no_lock(tmp_path):
    table_in(tmp_path).merge([row("first")])

    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)

    assert killed.returncode == 9
    assert [*table_in(tmp_path).rows()] == ["first"]
    begun = time.monotonic()
    table_in(tmp_path).merge([row("second")])
    assert time.monotonic() - begun < 5
    assert [*table_in(tmp_path).rows()] == ["first", "second"]


def test_the_last_row_takes_the_file_along(tmp_path):
    table_in(tmp_path).merge([row("only")])
    assert table_in(tmp_path).merge([], remove=["only"]) == []

    assert table_in(tmp_path).rows() == {}
    assert not tmp_path.joinpath("test_a").exists()


@pytest.mark.parametrize(
    ("ours", "theirs", "attributes"),
    [("bb", "dd", ""), ("bb", "bc", "golden/**/table*.yaml merge=union\n")],
    ids=["rows apart", "rows at one place, merged as .gitattributes says"],
)
def test_git_merges_branches_that_add_a_row_each(tmp_path, ours, theirs, attributes):
    table = tmp_path / "golden/test_a/table.yaml"
    table.parent.mkdir(parents=True)

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=tmp_path, check=True)

    def commit(*names: str) -> None:
        table.write_text(encode_table([row(name) for name in names]), encoding="utf-8")
        git("add", ".")
        git("commit", "-qm", "rows")

    git("init", "-qb", "main")
    tmp_path.joinpath(".gitattributes").write_text(attributes, encoding="utf-8")
    commit("a", "c", "e")
    git("checkout", "-qb", "other")
    commit("a", "c", "e", theirs)
    git("checkout", "-q", "main")
    commit("a", "c", "e", ours)
    git("merge", "-q", "other", "-m", "both")

    assert sorted(table_in(tmp_path / "golden").rows()) == sorted(["a", "c", "e", ours, theirs])


def nodes_in(folder):
    return {name: each.values["nodes"] for name, each in table_in(folder).rows().items()}


def test_a_row_is_written_over_the_row_that_was_compared_and_over_no_other(tmp_path):
    table_in(tmp_path).merge([row("same", 1), row("changed", 7)])
    compared = {"same": digest_of(row("same", 1)), "changed": digest_of(row("changed", 1))}

    assert table_in(tmp_path).merge([row("same", 2), row("changed", 2)], compared) == ["changed"]

    assert nodes_in(tmp_path) == {"same": 2, "changed": 7}


def test_a_row_that_another_run_has_written_alike_is_no_conflict(tmp_path):
    table_in(tmp_path).merge([row("same", 2)])

    assert table_in(tmp_path).merge([row("same", 2)], {"same": digest_of(row("same", 1))}) == []


def test_received_rows_gather_until_they_match_and_then_leave_nothing(tmp_path):
    table = table_in(tmp_path)
    table.merge([row("one"), row("two")])
    path = tmp_path / "test_a" / "table.received.yaml"

    assert table.receive({"one": None}) is None
    assert table.receive({"one": row("one", 5), "new": row("new")}, {"one": {"headline": "of one"}}) == received_path(
        table.place
    )
    table.receive({"two": row("two", 6)}, {"two": {"headline": "of two"}})
    told = read_received(path.read_text(encoding="utf-8"), "it")
    assert {name: each.values["nodes"] for name, each in decode_table(told.text, "it").items()} == {
        "one": 5,
        "two": 6,
        "new": 1,
    }
    assert told.cause == {"level": "table", "rows": {"one": {"headline": "of one"}, "two": {"headline": "of two"}}}

    table.receive({"one": None, "new": None})
    told = read_received(path.read_text(encoding="utf-8"), "it")
    assert [*told.cause["rows"]] == ["two"]
    assert [*decode_table(told.text, "it")] == ["one", "two"]
    assert table.receive({"two": None}) is None

    assert not path.exists()


def test_rows_received_for_another_table_are_forgotten(tmp_path):
    table = table_in(tmp_path)
    table.merge([row("one"), row("two")])
    table.receive({"one": row("one", 5)}, {"one": {"headline": "of one"}})
    table.merge([row("three")])

    table.receive({"two": row("two", 6)}, {})

    told = read_received(table.store.read(received_path(table.place)), "it")
    assert decode_table(told.text, "it")["one"].values == {"nodes": 1}
    assert told.cause == {"level": "table", "rows": {}}


def test_rows_are_accepted_one_by_one_and_from_no_other_table(tmp_path):
    table, received = table_in(tmp_path), tmp_path / "test_a" / "table.received.yaml"
    table.merge([row("one"), row("two")])
    table.receive({"one": row("one", 5), "two": row("two", 6)}, {"one": {"cluster": "x"}, "two": {"cluster": "y"}})

    assert table.accept(["one"])
    assert nodes_in(tmp_path) == {"one": 5, "two": 1}
    left = read_received(received.read_text(encoding="utf-8"), "it")
    assert left.cause["rows"] == {"two": {"cluster": "y"}}
    table.merge([row("three")])
    assert not table.accept(["two"])
    assert nodes_in(tmp_path) == {"one": 5, "two": 1, "three": 1}
    assert received.exists()


def test_a_received_file_whose_rows_are_all_accepted_is_removed(tmp_path):
    table = table_in(tmp_path)
    table.merge([row("one")])
    table.receive({"one": row("one", 5)}, {})

    assert table.accept(["one"])

    assert not table.store.exists(received_path(table.place))
