"""What a run does with tables: rows leave a test on its report, and one process writes them when the run ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph.gate.collection import COLLECTION_RECORD
from pytest_fxgraph.gate.paths import golden_layout, golden_root, is_worker, shown, within_folder
from pytest_fxgraph.goldens.files import base_path, is_received
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.settings import UNUSED_GOLDENS, value_of_config

if TYPE_CHECKING:
    from pytest_fxgraph.goldens.table_file import TableFile
    from pytest_fxgraph.goldens.table_rows import Row

_NAME = "fxgraph-tables"
_ATTRIBUTE = "fxgraph_table_rows"  # of a report
_BROKEN_OFF = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)
_MOST_SHOWN = 10


@dataclass(frozen=True)
class MeasuredRow:
    """What a test measured, and what the run is to do with it; plain data, which pytest-xdist carries."""

    table: str  # the file that it was compared with, as shown
    row: str
    test: str
    nodeid: str
    values: Mapping[str, int | float]
    written_to: str = ""  # the file that gets it, if the test passes
    is_received: bool = False  # kept beside the table, if the test fails


@dataclass
class TableAttempt:
    """What one attempt of a test did with tables."""

    rows: list[MeasuredRow] = field(default_factory=list)
    compared: bool = False


_ATTEMPT = pytest.StashKey[TableAttempt]()


def start_table_attempt(item: pytest.Item) -> TableAttempt:
    """Begin an attempt of a test that asks for fx_table, which from now on has to compare something."""
    item.stash[_ATTEMPT] = TableAttempt()
    return item.stash[_ATTEMPT]


def close_table_attempt(item: pytest.Item) -> None:
    """End the call of a test, and fail it if it asked for fx_table and compared nothing with it."""
    __tracebackhide__ = True
    attempt = item.stash.get(_ATTEMPT, None)
    if attempt is not None and not attempt.compared:
        pytest.fail(
            "the test asked for fx_table and compared nothing with it; "
            "write `assert subject == fx_table`, or leave the fixture out",
            pytrace=False,
        )


def attach_rows(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put what a test measured on the report of its teardown."""
    attempt = item.stash.get(_ATTEMPT, None)
    if report.when == "teardown" and attempt is not None:
        setattr(report, _ATTRIBUTE, [asdict(row) for row in attempt.rows])
        del item.stash[_ATTEMPT]


def enable_table_session(config: pytest.Config) -> None:
    """Follow the rows of a run from now on, in the process that writes them; a second call does nothing."""
    if not is_worker(config) and not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(TableSession(config), _NAME)


class TableSession:
    """Follows the rows of a run, in the process that writes: under pytest-xdist the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passing: dict[tuple[str, str], bool] = {}
        self._asked: dict[PurePosixPath, dict[str, str]] = {}  # by table without variants, and row: the test
        self._to_write: dict[str, dict[str, MeasuredRow]] = {}
        self._received: dict[str, dict[str, MeasuredRow | None]] = {}  # None where the row matched
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
            self._take(MeasuredRow(**row), has_passed=has_passed)

    def _take(self, row: MeasuredRow, *, has_passed: bool) -> None:
        asked = self._asked.setdefault(base_path(within_folder(row.table, self._config)), {})
        other = asked.setdefault(row.row, row.nodeid)
        if other != row.nodeid:
            self._errors.append(
                f"two tests have the row {row.row!r} of {row.table}: {other} and {row.nodeid}; "
                "give one of them a name of its own with fx_table(row=...)"
            )
            self._to_write.get(row.written_to, {}).pop(row.row, None)
            self._received.get(row.table, {}).pop(row.row, None)
        elif has_passed and row.written_to:
            self._to_write.setdefault(row.written_to, {})[row.row] = row
        elif row.is_received or has_passed:
            self._received.setdefault(row.table, {})[row.row] = row if row.is_received else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write rows, and tell which rows no test asks for."""
        for table, rows in self._to_write.items():
            self._write(table, rows)
        if self._config.getoption("fx_received"):
            for table, received in self._received.items():
                self._receive(table, received)
        if value_of_config(UNUSED_GOLDENS, self._config) != "ignore" or self._config.getoption("fx_prune_golden"):
            self._judge_unused(exitstatus)
        if self._errors and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _file(self, table: str) -> TableFile:
        from pytest_fxgraph.goldens.store import GoldenStore  # here: a run without tables reads none
        from pytest_fxgraph.goldens.table_file import TableFile

        return TableFile(GoldenStore(golden_root(self._config)), within_folder(table, self._config), table)

    def _write(self, table: str, rows: Mapping[str, MeasuredRow]) -> None:
        from pytest_fxgraph.errors import GateError

        if not rows:
            return
        try:
            self._file(table).merge(map(_row, rows.values()))
            self._told.append(f"wrote {_count(rows, 'row')} of {table}")
        except (GateError, OSError) as error:
            self._errors.append(str(error))

    def _receive(self, table: str, rows: Mapping[str, MeasuredRow | None]) -> None:
        from pytest_fxgraph.errors import GateError

        try:
            received = self._file(table).receive({name: _row(row) if row else None for name, row in rows.items()})
        except (GateError, OSError) as error:
            self._errors.append(str(error))
            return
        if received is not None:
            self._told.append(f"wrote {shown(received, self._config)}; accept its rows with `fxgraph accept {table}`")

    def _judge_unused(self, exitstatus: int) -> None:
        """Find rows of tests that are gone: in files of which all tests ran to their end, and in files that are gone.

        The latter are judged in a run of everything alone.
        """
        config = self._config
        record = config.stash.get(COLLECTION_RECORD, None)
        if record is None or exitstatus in _BROKEN_OFF or config.getoption("collectonly", False):
            return
        layout = golden_layout(config)
        is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
        ran = {
            file
            for file, found in record.found.items()
            if found <= record.ended.get(file, set()) and not record.failed.get(file)
        }
        for path in sorted(layout.goldens(None if is_whole else record.found)):
            if path.name.split("@")[0].split(".")[0] != "table" or is_received(path):
                continue
            file = layout.file_tested_by(path)
            is_gone = is_whole and file is not None and not (config.rootpath / file).exists()
            if file in ran or (is_gone and layout.root.resolve().is_relative_to(config.rootpath.resolve())):
                self._judge_table(path)

    def _judge_table(self, path: PurePosixPath) -> None:
        from pytest_fxgraph.errors import GateError
        from pytest_fxgraph.goldens.store import GoldenStore
        from pytest_fxgraph.goldens.table_rows import decode_table, is_table

        table = shown(path, self._config)
        try:
            text = GoldenStore(golden_root(self._config)).read(path)
            rows = decode_table(text, table) if is_table(text) else {}
            # A row of a variant is in use while any test asks for the row, whatever runs it.
            stale = tuple(name for name in rows if name not in self._asked.get(base_path(path), {}))
            if stale and self._config.getoption("fx_prune_golden"):
                self._file(table).merge((), stale)
                self._told.append(f"removed {_count(stale, 'row')} of {table} that no test asks for: {_listed(stale)}")
                return
        except (GateError, OSError) as error:
            self._errors.append(str(error))
            return
        if stale:
            told = (
                f"no test asks for {len(stale)} of the rows of {table}: {_listed(stale)} "
                "(--fx-prune-golden removes them)"
            )
            is_error = value_of_config(UNUSED_GOLDENS, self._config) == "fail"
            (self._errors if is_error else self._told).append(told)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what was written, and what is wrong."""
        for line in self._lines():
            terminalreporter.write_line(printable_line(line))

    def _lines(self) -> Iterator[str]:
        yield from (f"fx table: {line}" for line in self._told)
        yield from (f"fx table: error: {error}" for error in self._errors)


def _row(measured: MeasuredRow) -> Row:
    from pytest_fxgraph.goldens.table_rows import Row

    return Row(measured.row, measured.test, measured.values)


def _count(things: Any, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
