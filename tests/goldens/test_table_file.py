"""The file of a table: runs side by side, runs that are killed, and branches of git."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_file import TableFile
from pytest_fxgraph.goldens.table_rows import Row, encode_table

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
