"""The fixture `fx_table`: rows of a table as places of the pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
import torch

from pytest_fxgraph import settings
from pytest_fxgraph.arguments import check_options, shows_options
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.choice import captured_by
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.choices import Frontend
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.errors import GateError, GoldenMissingError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.comparison import TestPlace, compare
from pytest_fxgraph.gate.fixture import Expectation
from pytest_fxgraph.gate.obtained import Hooks
from pytest_fxgraph.gate.paths import golden_layout, golden_root, shown, slashed_path
from pytest_fxgraph.gate.table_numbers import COLUMN_OF_FINDING, findings_of, measured_numbers, row_values
from pytest_fxgraph.goldens.files import golden_path, variant_path, variant_paths
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_columns import check_rules, differences
from pytest_fxgraph.goldens.table_rows import Row, decode_table, digest_of, encode_table, number_text
from pytest_fxgraph.ranks.rank_programs import RankPrograms
from pytest_fxgraph.report.change_data import change_data
from pytest_fxgraph.report.change_text import describe_change, describe_place
from pytest_fxgraph.report.clusters import key_of
from pytest_fxgraph.report.outcome import Outcome, Told

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_MORE = 3  # lines of an assertion beside the headline and the command: a mismatch takes six
LEVEL = "table"  # of outcomes


class RowOptions(TypedDict, total=False):
    """The options of a comparison with a row."""

    name: str | None
    row: str | None
    extra: Mapping[str, float] | None
    tolerance: Mapping[str, float | str] | None
    better: Mapping[str, str] | None
    costs: bool | None
    frontend: Frontend | None
    example_inputs: object
    example_kwargs: Mapping[str, Any] | None


class ObtainedRow:
    """The numbers of a subject as a row, and the rules for comparing the row."""

    def __init__(
        self, row: Row, tolerance: Mapping[str, Any], better: Mapping[str, str], findings: Sequence[Change] = ()
    ) -> None:
        self._row, self._tolerance, self._better = row, tolerance, better
        self._findings = tuple(findings)  # breaks and other findings of a capture, with their lines
        self.new_text = encode_table([row])

    def matches(self, text: str) -> bool:
        """Return whether the golden row is this row, bit by bit."""
        return text == self.new_text

    def read(self, text: str, origin: str) -> Row:
        """Read the golden row from its text."""
        return decode_table(text, origin)[self._row.name]

    def differs_from(self, golden: Row) -> bool:
        """Return whether a number is too far from the golden's number, or the golden belongs to another test."""
        return bool(self._differences(golden)) or golden.test != self._row.test

    def told(
        self, golden: Row, shown: str, command: str, *, is_alone: bool, is_drawn: bool, has_variants: bool
    ) -> Told:
        """Describe the difference from a golden row, column by column."""
        found = self._differences(golden)
        table = shown.removesuffix(f"[{golden.name}]")
        if not found:
            line = (
                f"the row {golden.name!r} of {table} belongs to the test {golden.test}; give one of the tests a row of "
                f"its own with fx_table(row=...), or if the test was renamed: {command}"
            )
            return Told(line, (line,))
        findings = self._findings_behind(golden)
        more, section = [f"  {line}" for line in found[1:]], ""
        if len(more) > _MOST_MORE or findings:
            places = [line for each in findings for line in (describe_change(each), f"    {describe_place(each)}")]
            section = "\n".join([f"row {golden.name!r}", *found, *places])
        if len(more) > _MOST_MORE:
            more = [*more[: _MOST_MORE - 1], f"  and {len(more) - _MOST_MORE + 1} more columns, in the section below"]
        head = f"row {golden.name!r} of {table} does not match: {found[0]}"
        right = "that is right, accept it" if is_alone else "all goldens of this test are right, accept them"
        lines = (head, *more, f"  if {right} with", f"    {command}")
        cluster = key_of(("table", *found))
        return Told(found[0], lines, section, cluster, change_data(Difference("table", findings), cluster))

    def _findings_behind(self, golden: Row) -> tuple[Change, ...]:
        """Return the findings of the kinds that are more than in the golden row."""
        more = [column for column, value in self._row.values.items() if value > golden.values.get(column, 0)]
        return tuple([each for each in self._findings if COLUMN_OF_FINDING[each.subject] in more])

    def another_level(self, text: str, golden: Row) -> None:
        """Return None: rows have one level only."""

    def text_after(self, golden: Row) -> str:
        """Return the text of this row."""
        return self.new_text

    def section(self, shown: str) -> str:
        """Return no section: the lines of a missing row have all its numbers."""
        return ""

    def picture(self) -> tuple[str, ...]:
        """Return no picture."""
        return ()

    def words(self) -> str:
        """Return the numbers in words."""
        return ", ".join(f"{column} {number_text(value)}" for column, value in sorted(self._row.values.items()))

    def _differences(self, golden: Row) -> list[str]:
        return [*differences(golden.values, self._row.values, self._tolerance, self._better)]


class TableRow(TestPlace):
    """A row in the table of a test file."""

    def __init__(
        self, item: pytest.Item, attempt: GoldenAttempt, base: PurePosixPath, name: str, obtained: ObtainedRow
    ) -> None:
        self._item, self._base, self._name, self._obtained = item, base, name, obtained
        self._store = GoldenStore(golden_root(item.config))
        self._table, self._row = self._serving()
        super().__init__(self._shown(self._table), item, attempt)

    def row_data(self, path: PurePosixPath | None = None) -> dict[str, str]:
        """Return the place of the row as plain data, for the session."""
        return {"table": shown(path or self._table, self._item.config), "name": self._name}

    def read(self) -> str:
        """Return the text of the row. Raises GoldenMissingError if no file has the row."""
        if self._row is None:
            raise GoldenMissingError(f"{self.shown} is missing")
        return encode_table([self._row])

    def schedule(self, outcome: Outcome) -> Outcome:
        """Have the row written to the file that was compared, or to the variant if the run updates variants."""
        if not self._item.config.getoption("fx_update_variant"):
            return outcome
        variant = variant_path(self._base, str(torch.__version__))
        compared_with = digest_of(self._rows(variant).get(self._name))
        return replace(outcome, golden=self._shown(variant), row=self.row_data(variant), expected_digest=compared_with)

    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        """Describe the missing row."""
        table = shown(self._table, self._item.config)
        return (
            f"{table} has no row {self._name!r}",
            f"  it would be: {self._obtained.words()}",
            f"  write the goldens of this test: {command}",
        )

    def with_digest(self, outcome: Outcome, text: str | None) -> Outcome:
        """Note the digest of the golden row in the outcome."""
        return replace(outcome, expected_digest=digest_of(self._row))

    def with_received(self, outcome: Outcome, text: Callable[[], str]) -> Outcome:
        """Note the row that an update would write, under --fx-received."""
        return replace(outcome, received=text()) if self._item.config.getoption("fx_received") else outcome

    def _shown(self, path: PurePosixPath) -> str:
        return f"{shown(path, self._item.config)}[{self._name}]"

    def _serving(self) -> tuple[PurePosixPath, Row | None]:
        """Return the most specific file that has the row, for the torch and platform that run, and the row."""
        for place in variant_paths(self._base, str(torch.__version__), has_cuda=torch.cuda.is_available()):
            row = self._rows(place).get(self._name)
            if row is not None:
                return place, row
        return self._base, None

    def _rows(self, place: PurePosixPath) -> Mapping[str, Row]:
        if not self._store.exists(place):
            return {}
        return _rows_of(self._store.read(place), shown(place, self._item.config))


@functools.lru_cache(maxsize=16)  # each test of a file reads the same tables
def _rows_of(text: str, origin: str) -> Mapping[str, Row]:
    return decode_table(text, origin)


class TableExpectation(Expectation):
    """One row of a table, with options."""

    _fixture = "fx_table"

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt, options: RowOptions) -> None:
        self._item, self._attempt, self._options = item, attempt, options

    def _compare(self, subject: object) -> Exception | None:
        """Compare the numbers of a subject with its row; return the error to raise, None where the test may go on.

        Raises CaptureError for a capture without a graph, GateError for a value that is no number.
        """
        __tracebackhide__ = True
        item, options = self._item, self._options
        self._attempt.compared("fx_table")
        test = str(item.nodeid).partition("::")[2]
        name = options.get("row") or test
        graphs = self._graphs_of(subject)
        values = self._measured(graphs, name)
        base = golden_path(
            slashed_path(item.path, item.config.rootpath),
            [],
            "table",
            None,
            options.get("name"),
            is_beside=golden_layout(item.config).is_beside,
        )
        rules = options.get("tolerance") or {}, options.get("better") or {}
        obtained = ObtainedRow(Row(name, test, values), *rules, findings_of(graphs))
        place = TableRow(item, self._attempt, base, name, obtained)
        data = place.row_data()
        if any(outcome.row == data for outcome in self._attempt.outcomes):
            raise GateError(f"this test compares two subjects with the row {name!r}; name them with fx_table(row=...)")
        return compare(place, obtained, Outcome(str(item.nodeid), place.shown, LEVEL, "matched", row=data))

    def _measured(self, graphs: object, row: str) -> dict[str, int | float]:
        __tracebackhide__ = True
        options = self._options
        values = row_values(
            graphs,
            measured_numbers(options.get("extra") or {}, row),
            costs=options.get("costs"),
            example_inputs=options.get("example_inputs"),
            example_kwargs=options.get("example_kwargs"),
        )
        check_rules(values, options.get("tolerance") or {}, options.get("better") or {})
        return values

    def _graphs_of(self, subject: Any) -> Any:
        inputs, kwargs = self._options.get("example_inputs"), self._options.get("example_kwargs")
        frontend = settings.value_of(settings.FRONTEND, self._item, self._options.get("frontend"))
        adapt = Hooks.of_test(self._item).adapt
        with captured_by(frontend, subject, inputs, kwargs, adapt) as given:
            if isinstance(given, (Capture, RankPrograms)):
                return given
            return to_graph_module(given, adapt, example_inputs=inputs, example_kwargs=kwargs)


class FxTable(TableExpectation):
    """The table of the test's file: `assert capture == fx_table`."""

    @classmethod
    def of_test(cls, item: pytest.Item, attempt: GoldenAttempt) -> FxTable:
        """Make the fixture of one test. From now on the test has to compare something."""
        attempt.ask("fx_table")
        return cls(item, attempt, {})

    @shows_options(RowOptions)
    def __call__(self, **options: Unpack[RowOptions]) -> TableExpectation:
        """Return the row with options that hold for this comparison.

        The row of a test has the test's name, or `row`; `name` tells tables apart. `extra` are columns that the test
        measured itself; `tolerance` says by column how far a number may be off, 2 or "5%"; `better` by column which way
        is better, "lower" or "higher". `costs=False` leaves out the costs of the graphs, which are counted where the
        shapes of their inputs are known; with True, unknown shapes are an error. `frontend` and example inputs say how
        a module becomes graphs.
        """
        check_options(options, RowOptions, "fx_table")
        return TableExpectation(self._item, self._attempt, options)
