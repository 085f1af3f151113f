"""What a test gets as `fx_table`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NoReturn

import pytest
import torch

from pytest_fxgraph import settings
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.choice import captured_by, other_frontends_named
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.choices import Frontend
from pytest_fxgraph.errors import GateError, GoldenMissingError
from pytest_fxgraph.gate.comparison import is_expected_to_fail
from pytest_fxgraph.gate.paths import accepting_command, golden_layout, golden_root, shown, slashed_path
from pytest_fxgraph.gate.table_numbers import measured_numbers, row_values
from pytest_fxgraph.gate.table_session import MeasuredRow, TableAttempt, start_table_attempt
from pytest_fxgraph.goldens.files import variant_path, variant_paths
from pytest_fxgraph.goldens.location import golden_path
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_columns import check_rules, differences
from pytest_fxgraph.goldens.table_rows import Row, decode_table, number_text

_MOST_MORE = 3  # lines of an assertion beside the headline and the command: a mismatch takes six


@dataclass(frozen=True)
class _RowRequest:
    """What a test asks of one row."""

    name: str | None = None
    row: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    better: Mapping[str, str] = field(default_factory=dict)
    costs: bool | None = None
    frontend: str | None = None
    example_inputs: Any = None
    example_kwargs: Mapping[str, Any] | None = None


class TableExpectation:
    """Stands on one side of `==`, the subject on the other; a mismatch raises an AssertionError at once."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # comparing has an effect here, which a set or dict would hide

    def __init__(self, item: pytest.Item, attempt: TableAttempt, request: _RowRequest) -> None:
        self._item, self._attempt, self._request = item, attempt, request
        self._store = GoldenStore(golden_root(item.config))

    def __eq__(self, subject: object) -> bool:
        """Compare the numbers of a subject with its row; return True or raise.

        Raises AssertionError if they differ, GoldenMissingError if there is no such row, CaptureError for a capture
        that has no graph, GateError for a number that is none.
        """
        __tracebackhide__ = True
        self._compare(subject)
        return True

    def __ne__(self, subject: object) -> NoReturn:
        """Raise GateError: a row says what the numbers are, not what they are not."""
        raise GateError("`!=` with fx_table is refused; write `assert subject == fx_table`")

    def __bool__(self) -> NoReturn:
        """Raise GateError: `assert fx_table(...)` would compare nothing, and pass."""
        raise GateError("fx_table is neither true nor false: nothing is compared; write `assert subject == fx_table`")

    def __repr__(self) -> str:
        return "fx_table"

    def _compare(self, subject: object) -> None:
        __tracebackhide__ = True
        item, request = self._item, self._request
        self._attempt.compared = True
        test = str(item.nodeid).partition("::")[2]
        name = test if request.row is None else request.row
        place, expected = self._served(name)
        table = shown(place, item.config)
        values = self._measured(subject, name)
        if any(row.table == table and row.row == name for row in self._attempt.rows):
            raise GateError(f"this test compares two subjects with the row {name!r}; name them with fx_table(row=...)")
        row = MeasuredRow(table, name, test, str(item.nodeid), values)
        found = [] if expected is None else [*differences(expected.values, values, request.tolerance, request.better)]
        if expected is not None and not found and expected.test == test:
            self._attempt.rows.append(row)
            return
        is_wanted = settings.wants_update(item.config, "new" if expected is None else "changed")
        if is_wanted and not is_expected_to_fail(item):
            self._attempt.rows.append(replace(row, written_to=self._written_to(place)))
            return
        self._attempt.rows.append(replace(row, is_received=bool(item.config.getoption("fx_received"))))
        raise self._error(table, name, expected, found, values)

    def _measured(self, subject: object, row: str) -> dict[str, int | float]:
        __tracebackhide__ = True
        request = self._request
        extra = measured_numbers(request.extra, row)
        values = row_values(
            self._graphs_of(subject),
            extra,
            costs=request.costs,
            example_inputs=request.example_inputs,
            example_kwargs=request.example_kwargs,
        )
        check_rules(values, request.tolerance, request.better)
        return values

    def _error(
        self, table: str, name: str, expected: Row | None, found: list[str], measured: Mapping[str, float]
    ) -> Exception:
        command = accepting_command(self._item)
        if expected is None:
            numbers = ", ".join(f"{column} {number_text(value)}" for column, value in sorted(measured.items()))
            return GoldenMissingError(f"{table} has no row {name!r}\n  it would be: {numbers}\n  write it: {command}")
        if not found:
            return AssertionError(
                f"the row {name!r} of {table} belongs to the test {expected.test}; give one of the tests a row of its "
                f"own with fx_table(row=...), or if the test was renamed: {command}"
            )
        more = [f"  {line}" for line in found[1:]]
        if len(more) > _MOST_MORE:
            self._item.add_report_section("call", f"fx table {table}", "\n".join([f"row {name!r}", *found]))
            more = [*more[: _MOST_MORE - 1], f"  and {len(more) - _MOST_MORE + 1} more columns, in the section below"]
        lines = [f"row {name!r} of {table} does not match: {found[0]}", *more, "  if that is right, accept it with"]
        return AssertionError("\n".join([*lines, f"    {command}"]))

    def _graphs_of(self, subject: Any) -> Any:
        if isinstance(subject, Capture):
            return subject
        item, request = self._item, self._request
        frontend = settings.value_of(settings.FRONTEND, item, request.frontend)
        adapt = lambda obj: item.ihook.pytest_fxgraph_adapt(obj=obj)  # noqa: E731
        captured = captured_by(frontend, subject, request.example_inputs, request.example_kwargs, adapt)
        if captured is not None:
            return captured
        with other_frontends_named():
            return to_graph_module(
                subject, adapt, example_inputs=request.example_inputs, example_kwargs=request.example_kwargs
            )

    # Which file.

    def _served(self, name: str) -> tuple[PurePosixPath, Row | None]:
        """Return the row for the torch and platform that run, and its file: the most specific one that has the row."""
        base = self._base()
        for place in variant_paths(base, str(torch.__version__), has_cuda=torch.cuda.is_available()):
            if self._store.exists(place):
                rows = _rows_of(self._store.read(place), shown(place, self._item.config))
                if name in rows:
                    return place, rows[name]
        return base, None

    def _base(self) -> PurePosixPath:
        item = self._item
        return golden_path(
            slashed_path(item.path, item.config.rootpath),
            [],
            "table",
            None,
            self._request.name,
            is_beside=golden_layout(item.config).is_beside,
        )

    def _written_to(self, place: PurePosixPath) -> str:
        """Return the file that gets a row: the one that was compared, or the variant if that was asked for."""
        if self._item.config.getoption("fx_update_variant"):
            place = variant_path(self._base(), str(torch.__version__))
        return shown(place, self._item.config)


@functools.lru_cache(maxsize=16)  # each test of a file reads the same tables
def _rows_of(text: str, origin: str) -> Mapping[str, Row]:
    return decode_table(text, origin)


class FxTable(TableExpectation):
    """The table of the test's file: `assert capture == fx_table`."""

    @classmethod
    def of_test(cls, item: pytest.Item) -> FxTable:
        """Make the fixture of one test, which from now on has to compare something."""
        return cls(item, start_table_attempt(item), _RowRequest())

    def __call__(
        self,
        *,
        name: str | None = None,
        row: str | None = None,
        extra: Mapping[str, float] | None = None,
        tolerance: Mapping[str, float | str] | None = None,
        better: Mapping[str, str] | None = None,
        costs: bool | None = None,
        frontend: Frontend | None = None,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
    ) -> TableExpectation:
        """Return what to compare with. The row of a test is named for it, or `row`; `name` tells tables apart.

        `extra` are columns that the test measured itself; `tolerance` says by column how far a number may be off, 2 or
        "5%"; `better` by column which way is better, "lower" or "higher". `costs=False` leaves out what the graphs
        cost, which is counted where the shapes of their inputs are known; with True anything else is an error.
        `frontend` and example inputs say how a module becomes graphs.
        """
        request = _RowRequest(
            name, row, extra or {}, tolerance or {}, better or {}, costs, frontend, example_inputs, example_kwargs
        )
        return TableExpectation(self._item, self._attempt, request)
