"""Rows are written when the run ends. A table that cannot be read, or that another run has changed, is an error."""

from __future__ import annotations

import dataclasses
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_fxgraph.gate.row_writes import RowWrites
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_rows import Row, decode_table, digest_of, encode_table
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

TABLE = "golden/test_a/table.yaml"
CUT_OFF = encode_table([Row("one", "one", {"nodes": 1})]).removesuffix("end: true\n")
CANNOT_READ = (
    f"cannot read the table {TABLE}: it was cut off: its last line is not `end: true`; restore it from version "
    "control, or remove it and write it anew with pytest --fx-update-golden"
)


@pytest.fixture
def writes(tmp_path):
    options: dict[str, Any] = {"fx_golden_dir": "golden", "fx_unused": "warn", "fx_received": False}
    (tmp_path / "test_a.py").touch()
    return RowWrites(
        SimpleNamespace(
            stash=pytest.Stash(),
            rootpath=tmp_path,
            inipath=None,
            invocation_params=SimpleNamespace(dir=tmp_path, args=()),
            options=options,
            getoption=lambda name, default=None: options.get(name, default),
        )
    )


def path_of(writes):
    return writes._config.rootpath / TABLE


def put(writes, text):
    path_of(writes).parent.mkdir(parents=True)
    path_of(writes).write_text(text, encoding="utf-8")


def outcome(name, *, compared_with=None, received=False, headline=""):
    text = encode_table([Row(name, name, {"nodes": 2})])
    texts = {"received" if received else "new_text": text}
    status = "mismatch" if received else "updated"
    place = {"table": TABLE, "name": name}
    digest = digest_of(compared_with)
    return Outcome(name, TABLE, "table", status, headline, row=place, expected_digest=digest, **texts)


def test_a_row_is_written_beside_the_rows_of_other_tests(writes):
    put(writes, encode_table([Row("one", "one", {"nodes": 1})]))
    writes.take(outcome("two"), passed=True, failed=False)

    writes.write()

    assert [*decode_table(path_of(writes).read_text(encoding="utf-8"), TABLE)] == ["one", "two"]
    assert (writes.told, writes.errors, writes.refused) == ([f"wrote 1 row of {TABLE}"], [], [])


def test_a_row_that_another_run_has_changed_stays_and_is_named(writes):
    put(writes, encode_table([Row("one", "one", {"nodes": 7}), Row("three", "three", {"nodes": 7})]))
    of_another_run = outcome("one", compared_with=Row("one", "one", {"nodes": 1}))
    writes.take(of_another_run, passed=True, failed=False)
    writes.take(outcome("two"), passed=True, failed=False)

    writes.write()

    rows = decode_table(path_of(writes).read_text(encoding="utf-8"), TABLE)
    assert {name: row.values["nodes"] for name, row in rows.items()} == {"one": 7, "three": 7, "two": 2}
    assert writes.told == [f"wrote 1 row of {TABLE}"]
    assert writes.refused == [of_another_run]
    assert writes.errors == [
        f"cannot write 1 row of {TABLE}: one: another run has changed them since this run compared with them; look at "
        "them, and run the tests again"
    ]


def test_a_table_that_cannot_be_read_is_not_written(writes):
    put(writes, CUT_OFF)
    wanted = outcome("two")
    writes.take(wanted, passed=True, failed=False)

    writes.write()

    assert path_of(writes).read_text(encoding="utf-8") == CUT_OFF
    assert (writes.told, writes.errors, writes.refused) == ([], [CANNOT_READ], [wanted])


def test_the_rows_of_failed_tests_are_received_and_a_row_that_matches_is_received_no_more(writes):
    writes._config.options["fx_received"] = True
    put(writes, encode_table([Row("one", "one", {"nodes": 1})]))
    received = path_of(writes).with_name("table.received.yaml")
    writes.take(outcome("one", received=True), passed=False, failed=True)
    writes.write()
    assert received.exists()
    assert writes.told == [
        "wrote golden/test_a/table.received.yaml; accept its rows with `fxgraph accept golden/test_a/table.yaml`"
    ]

    writes.take(
        Outcome("one", TABLE, "table", "matched", row={"table": TABLE, "name": "one"}), passed=True, failed=False
    )
    writes.write()

    assert not received.exists()
    assert len(writes.told) == 1


def test_nothing_is_received_for_a_table_that_cannot_be_read(writes):
    writes._config.options["fx_received"] = True
    put(writes, CUT_OFF)
    writes.take(outcome("two", received=True), passed=False, failed=True)

    writes.write()

    assert [path.name for path in path_of(writes).parent.iterdir()] == ["table.yaml"]
    assert (writes.told, writes.errors) == ([], [CANNOT_READ])


def record(*, finished=True):
    ended = {"test_a.py": ("", "test_x")}
    return RunRecord(had_path_arguments=False, finished=finished, found=ended, ended=ended)


@pytest.mark.parametrize("setting", ["warn", "fail"])
def test_rows_that_no_test_asks_for_are_named(writes, setting):
    writes._config.options["fx_unused"] = setting
    put(writes, encode_table([Row("one", "one", {"nodes": 1}), Row("two", "two", {"nodes": 2})]))
    writes.take(outcome("two"), passed=True, failed=False)

    writes.judge(record())

    told = [f"no test asks for 1 of the rows of {TABLE}: one (--fx-prune-golden removes them)"]
    assert (writes.told, writes.errors) == ((told, []) if setting == "warn" else ([], told))


@pytest.mark.parametrize(("setting", "finished"), [("ignore", True), ("fail", False)])
def test_rows_are_not_judged_if_nobody_asks_or_the_run_was_broken_off(writes, setting, finished):
    writes._config.options["fx_unused"] = setting
    put(writes, encode_table([Row("one", "one", {"nodes": 1})]))

    writes.judge(record(finished=finished))

    assert (writes.told, writes.errors) == ([], [])


def test_a_table_that_cannot_be_read_is_not_judged(writes):
    put(writes, CUT_OFF)
    GoldenStore(path_of(writes).parents[1]).write(PurePosixPath("test_a/table.received.yaml"), "not looked at")

    writes.judge(record())

    assert (writes.told, writes.errors) == ([], [CANNOT_READ])


def test_two_tests_that_want_one_row_write_none_of_theirs(writes):
    one, other = outcome("one"), dataclasses.replace(outcome("one"), nodeid="other")
    matched = Outcome("third", TABLE, "table", "matched", row={"table": TABLE, "name": "one"})
    for each in (one, other, matched):
        writes.take(each, passed=True, failed=False)

    writes.write()

    assert writes.refused == [one, other]
    assert not path_of(writes).exists()
    assert writes.told == []
    assert len(writes.errors) == 2
    assert writes.errors[0].startswith(f"two tests have the row 'one' of {TABLE}: one and other;")


def test_a_test_that_was_skipped_receives_and_removes_nothing(writes):
    writes._config.options["fx_received"] = True
    put(writes, encode_table([Row("one", "one", {"nodes": 1})]))
    matched = Outcome("one", TABLE, "table", "matched", row={"table": TABLE, "name": "one"})
    writes.take(outcome("one", received=True), passed=False, failed=True)
    writes.write()

    for each, passed, failed in ((outcome("two", received=True), False, False), (matched, False, True)):
        again = RowWrites(writes._config)
        again.take(each, passed=passed, failed=failed)
        again.write()

        received = path_of(writes).with_name("table.received.yaml").read_text(encoding="utf-8")
        assert "row: one" in received
        assert "row: two" not in received


def test_a_table_of_which_no_row_could_be_written_is_not_told_as_written(writes):
    put(writes, encode_table([Row("one", "one", {"nodes": 7})]))
    writes.take(outcome("one", compared_with=Row("one", "one", {"nodes": 1})), passed=True, failed=False)

    writes.write()

    assert writes.told == []
    assert len(writes.errors) == 1


def test_only_tables_are_judged_and_in_a_run_with_paths_only_those_of_its_files(writes):
    text = encode_table([Row("one", "one", {"nodes": 1})])
    root = writes._config.rootpath
    for name in ("test_a/table.yaml", "test_a/tables.yaml", "test_a/test_x.yaml", "test_b/table.yaml"):
        (root / "golden" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "golden" / name).write_text(text, encoding="utf-8")
    (root / "test_b.py").touch()

    for has_paths in (False, True):
        judging = RowWrites(writes._config)
        judging.judge(dataclasses.replace(record(), had_path_arguments=has_paths))
        assert [line.partition(" of the rows of ")[2].partition(":")[0] for line in judging.told] == [TABLE]
