"""What a run does with tables: rows leave a test on its report, and one process writes them when the run ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_fxgraph.golden.activation import is_worker
from pytest_fxgraph.golden.collection import COLLECTION_RECORD
from pytest_fxgraph.golden.location import golden_path
from pytest_fxgraph.golden.paths import golden_root, shown, within_folder
from pytest_fxgraph.settings import UNUSED_GOLDENS, value_of_config

_NAME = "fxgraph-tables"
_ATTRIBUTE = "fxgraph_table_rows"  # of a report
ROWS = pytest.StashKey[list[dict[str, Any]]]()  # of an item: what its attempt measured
_LONGEST_WAIT = 60.0  # seconds for another run that writes the same table


def enable_table_session(config: pytest.Config) -> None:
    """Follow the rows of a run from now on, in the process that writes them; a second call does nothing."""
    if not is_worker(config) and not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(TableSession(config), _NAME)


def attach_rows(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put what a test measured on the report of its teardown, as plain data, which pytest-xdist carries."""
    rows = item.stash.get(ROWS, [])
    if report.when == "teardown" and rows:
        setattr(report, _ATTRIBUTE, list(rows))
        rows.clear()


class TableSession:
    """Follows the rows of a run, in the process that writes: under pytest-xdist the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passing: dict[tuple[str, str], bool] = {}
        self._asked: dict[str, dict[str, str]] = {}  # by table and row: the test
        self._to_write: dict[str, dict[str, dict[str, Any]]] = {}
        self._errors: list[str] = []
        self._told: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow an attempt; keep its rows if all of it passed."""
        key = (str(getattr(report, "worker_id", "")), str(report.nodeid))
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        self._passing[key] = passed and (report.when == "setup" or self._passing.get(key, False))
        if report.when != "teardown" or str(report.outcome) == "rerun":
            return
        has_passed = self._passing.pop(key, False)
        for row in getattr(report, _ATTRIBUTE, []):
            self._take(row, has_passed=has_passed)

    def _take(self, row: dict[str, Any], *, has_passed: bool) -> None:
        asked = self._asked.setdefault(row["table"], {})
        other = asked.setdefault(row["row"], row["nodeid"])
        if other != row["nodeid"]:
            self._errors.append(
                f"two tests have the row {row['row']!r} of {row['table']}: {other} and {row['nodeid']}; "
                "give one of them a name of its own with fx_table(row=...)"
            )
            self._to_write.get(row["table"], {}).pop(row["row"], None)
        elif has_passed and row["write"]:
            self._to_write.setdefault(row["table"], {})[row["row"]] = row

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write rows, and tell which rows no test asks for."""
        for table, rows in self._to_write.items():
            self._write(table, rows)
        if value_of_config(UNUSED_GOLDENS, self._config) != "ignore" or self._config.getoption("fx_prune_golden"):
            self._judge_unused()
        if self._errors and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, table: str, measured: dict[str, dict[str, Any]], remove: tuple[str, ...] = ()) -> None:
        from pytest_fxgraph.errors import GateError
        from pytest_fxgraph.golden.store import GoldenStore
        from pytest_fxgraph.table.rows import Row, decode_table, encode_table

        store, place = GoldenStore(golden_root(self._config)), within_folder(table, self._config)
        try:
            with _locked(store.path(place)):
                # Read again: another run may have written its own rows since.
                rows = decode_table(store.read(place), table) if store.exists(place) else {}
                for row in measured.values():
                    rows[row["row"]] = Row(row["row"], row["test"], row["values"])
                for name in remove:
                    rows.pop(name, None)
                if rows:
                    store.write(place, encode_table(rows.values()))
                else:
                    store.remove(place)
        except (GateError, OSError) as error:
            self._errors.append(str(error))
            return
        did = f"wrote {len(measured)} row{'' if len(measured) == 1 else 's'} of"
        self._told.append(f"{f'removed {len(remove)} unused of' if remove else did} {table}")

    def _judge_unused(self) -> None:
        """Find rows of tests that are gone, in files of which all tests ran to their end."""
        record = self._config.stash.get(COLLECTION_RECORD, None)
        if record is None:
            return
        for file, found in sorted(record.found.items()):
            if not found <= record.ended.get(file, set()) or record.failed.get(file):
                continue
            for table in self._tables_of(file):
                self._judge_table(table)

    def _judge_table(self, table: str) -> None:
        from pytest_fxgraph.errors import GateError
        from pytest_fxgraph.golden.store import GoldenStore
        from pytest_fxgraph.table.rows import decode_table, is_table

        try:
            text = GoldenStore(golden_root(self._config)).read(within_folder(table, self._config))
            rows = decode_table(text, table) if is_table(text) else {}
        except GateError as error:
            self._errors.append(str(error))
            return
        stale = tuple(name for name in rows if name not in self._asked.get(table, {}))
        if not stale:
            return
        if self._config.getoption("fx_prune_golden"):
            self._write(table, {}, stale)
            return
        names = ", ".join(stale[:10]) + (f" and {len(stale) - 10} more" if len(stale) > 10 else "")
        told = f"no test asks for {len(stale)} of the rows of {table}: {names} (--fx-prune-golden removes them)"
        is_error = value_of_config(UNUSED_GOLDENS, self._config) == "fail"
        (self._errors if is_error else self._told).append(told)

    def _tables_of(self, file: str) -> Iterator[str]:
        from pytest_fxgraph.golden.paths import golden_layout

        base = golden_path(file, [], "table", is_beside=golden_layout(self._config).is_beside)
        folder = golden_root(self._config) / base.parent
        for path in sorted(folder.glob("table*.yaml")):
            if path.name.split("@")[0].split(".")[0] == "table":
                yield shown(PurePosixPath(base.parent, path.name), self._config)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what was written, and what is wrong."""
        for line in (*self._told, *(f"error: {error}" for error in self._errors)):
            terminalreporter.write_line(f"fx table: {line}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file beside a table, so that of two runs side by side none loses the other's rows."""
    lock = path.with_name(f".{path.name}.lock.fxgraph-tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise OSError(
                    f"cannot write {path}: another run holds {lock} for a minute; remove it if that run is gone"
                ) from None
            time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
