"""The rows that the tests of a run write, receive and ask for. The end of the run writes all rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.commands import accept_file
from pytest_fxgraph.gate.paths import golden_layout, golden_store, shown, within_folder
from pytest_fxgraph.goldens.files import base_path, is_received
from pytest_fxgraph.goldens.unused import judged_files
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import counted, listed
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.settings import UNUSED_GOLDENS, value_of_config

if TYPE_CHECKING:
    from pytest_fxgraph.goldens.table_file import TableFile
    from pytest_fxgraph.goldens.table_rows import Row

_MOST_SHOWN = 10


class RowWrites:
    """The rows of one run. Lives in the process that writes goldens."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._asked: dict[PurePosixPath, dict[str, str]] = {}  # by table without variants, and row: the test
        self._wanted: dict[str, dict[str, Outcome]] = {}  # by table and row
        self._received: dict[str, dict[str, Outcome]] = {}  # by table and row; an outcome that matched removes
        self.errors: list[str] = []
        self.told: list[str] = []
        self.refused: list[Outcome] = []  # rows that a test wanted and that were not written

    def take(self, outcome: Outcome, *, passed: bool, failed: bool) -> None:
        """Keep the row of a finished test, with the wish to write or receive the row."""
        place = outcome.row or {}
        table, name = place["table"], place["name"]
        other = self._asked.setdefault(base_path(within_folder(table, self._config)), {}).setdefault(
            name, outcome.nodeid
        )
        if other != outcome.nodeid:
            self.errors.append(
                f"two tests have the row {name!r} of {table}: {other} and {outcome.nodeid}; "
                "give one of them a name of its own with fx_table(row=...)"
            )
            dropped = self._wanted.get(table, {}).pop(name, None)
            self.refused += [each for each in (dropped, outcome) if each is not None and each.new_text is not None]
            self._received.get(table, {}).pop(name, None)
        elif passed and outcome.new_text is not None:
            self._wanted.setdefault(table, {})[name] = outcome
        elif passed or (failed and outcome.received is not None):
            self._received.setdefault(table, {})[name] = outcome

    def write(self) -> None:
        """Write the rows of all tables; a row that cannot be written is an error, and stays as it was."""
        for table, rows in self._wanted.items():
            if rows:
                self._write(table, rows)
        if self._config.getoption("fx_received"):
            for table, received in self._received.items():
                self._receive(table, received)

    def _write(self, table: str, wanted: Mapping[str, Outcome]) -> None:
        digests = {name: outcome.expected_digest for name, outcome in wanted.items()}
        try:
            refused = self._file(table).merge(map(_row_of, wanted.values()), digests)
        except (GateError, OSError) as error:
            self.errors.append(str(error))
            self.refused += wanted.values()
            return
        self.refused += [wanted[name] for name in refused]
        if refused:
            self.errors.append(
                f"cannot write {counted(len(refused), 'row')} of {table}: {listed(refused, _MOST_SHOWN)}: another run "
                "has changed them since this run compared with them; look at them, and run the tests again"
            )
        if len(refused) < len(wanted):
            self.told.append(f"wrote {counted(len(wanted) - len(refused), 'row')} of {table}")

    def _receive(self, table: str, received: Mapping[str, Outcome]) -> None:
        rows = {name: _row_of(outcome) if outcome.received else None for name, outcome in received.items()}
        causes = {name: received[name].cause for name, row in rows.items() if row is not None}
        try:
            file = self._file(table).receive(rows, causes)
        except (GateError, OSError) as error:
            self.errors.append(str(error))
            return
        if file is not None:
            command = accept_file(self._config, within_folder(table, self._config))
            self.told.append(f"wrote {shown(file, self._config)}; accept its rows with `{command}`")

    def judge(self, record: RunRecord) -> None:
        """Find the rows of tests that are gone, and remove them if the run prunes.

        The rows of a table are judged as the goldens of its test file are.
        """
        config = self._config
        is_wanted = value_of_config(UNUSED_GOLDENS, config) != "ignore" or config.getoption("fx_prune_golden")
        if not is_wanted or not record.finished:
            return
        layout, judged = golden_layout(config), judged_files([record])
        for path in sorted(layout.goldens(record.found if record.had_path_arguments else None)):
            is_table = path.name.split("@")[0].split(".")[0] == "table" and not is_received(path)
            if is_table and layout.file_tested_by(path) in judged:
                self._judge_table(path)

    def _judge_table(self, path: PurePosixPath) -> None:
        from pytest_fxgraph.goldens.table_rows import decode_table, is_table  # here: a run without tables reads no YAML

        table = shown(path, self._config)
        try:
            text = golden_store(self._config).read(path)
            rows = decode_table(text, table) if is_table(text) else {}
            # A row of a variant is in use while any test asks for the row, whatever runs it.
            stale = [name for name in rows if name not in self._asked.get(base_path(path), {})]
            if stale and self._config.getoption("fx_prune_golden"):
                self._file(table).merge((), remove=stale)
                rows_removed = f"{counted(len(stale), 'row')} of {table}"
                self.told.append(f"removed {rows_removed} that no test asks for: {listed(stale, _MOST_SHOWN)}")
                return
        except (GateError, OSError) as error:
            self.errors.append(str(error))
            return
        if stale:
            told = (
                f"no test asks for {len(stale)} of the rows of {table}: {listed(stale, _MOST_SHOWN)} "
                "(--fx-prune-golden removes them)"
            )
            is_error = value_of_config(UNUSED_GOLDENS, self._config) == "fail"
            (self.errors if is_error else self.told).append(told)

    def _file(self, table: str) -> TableFile:
        from pytest_fxgraph.goldens.table_file import TableFile

        return TableFile(golden_store(self._config), within_folder(table, self._config), table)


def _row_of(outcome: Outcome) -> Row:
    from pytest_fxgraph.goldens.table_rows import decode_table

    (row,) = decode_table(outcome.new_text or outcome.received or "", outcome.golden).values()
    return row
