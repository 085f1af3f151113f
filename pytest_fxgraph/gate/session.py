"""The one session that writes goldens: it follows reports, and writes a golden once its test has passed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.attempt import extract_numeric_failures, extract_outcomes, extract_strips, lacked_goldens_only
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK, gathering_of
from pytest_fxgraph.gate.paths import golden_store, shown, within_folder
from pytest_fxgraph.gate.ranks_writes import TestOutcome, gathered_goldens
from pytest_fxgraph.gate.workers import check_remote_golden
from pytest_fxgraph.goldens.files import Received, received_path, write_received
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.summary import counted_goldens

if TYPE_CHECKING:
    from pytest_fxgraph.gate.inline_writes import InlineWrites
    from pytest_fxgraph.gate.row_writes import RowWrites
    from pytest_fxgraph.report.numeric_failure import NumericFailure
    from pytest_fxgraph.report.run_record import RunRecord
    from pytest_fxgraph.report.stage_strip import StageStrip


class GoldenSession:
    """The results of all goldens of a run. Lives in the main process alone, under pytest-xdist in the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._store = golden_store(config)
        self.outcomes: list[Outcome] = []  # of last attempts
        self.written: list[str] = []
        self.written_received: list[str] = []
        self.written_inline: list[str] = []  # "2 inline goldens of tests/test_fuse.py"
        self.told_rows: list[str] = []  # "wrote 2 rows of golden/tests/test_zoo/table.yaml"
        self.errors: list[str] = []
        self.results: dict[tuple[str, str], str] = {}  # by test and golden: a key of summary.COUNTED
        self.failures: list[NumericFailure] = []  # of last attempts
        self._strips: dict[str, list[StageStrip]] = {}  # by test: the lowerings of its last attempt
        self.places: dict[str, tuple[str, int]] = {}  # by test that failed: its file, and its line, the first being 1
        # Attempts under way, by worker and test: whether all phases have passed so far, and the failed attempts.
        self._passing: dict[tuple[str, str], bool] = {}
        self._failed: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], list[NumericFailure]] = {}
        # Tests that failed because a golden was missing, and tests that failed for another reason.
        self._missed: set[str] = set()
        self._broken: set[str] = set()
        self._writers: dict[str, Outcome] = {}  # by golden: the first outcome that had a text written to it
        self._inline: InlineWrites | None = None  # once there is an inline golden
        self._rows: RowWrites | None = None  # once there is a table
        self._parts: set[str] = set()  # inline goldens and rows
        self._received: set[str] = set()  # goldens with a received file of this run
        place = config.stash.get(LAUNCHED_RANK, None)
        self._gathering = gathering_of(config)
        # Whether this process writes: rank 0 among the ranks of a launch.
        self.is_writer = place is None or place.rank == 0
        self._held: list[TestOutcome] = []  # in a launch of several ranks: until all ranks have ended

    def asked(self) -> set[str]:
        """Return the golden files that tests asked for, whatever became of them."""
        return {golden for _, golden in self.results} - self._parts

    def lacking(self) -> set[str]:
        """Return the tests that failed for nothing but goldens that are missing."""
        return self._missed - self._broken

    def new(self) -> list[Outcome]:
        """Return the outcomes of golden files that are missing, or that this run has added."""
        files = (outcome for outcome in self.outcomes if outcome.is_file)
        return [outcome for outcome in files if outcome.status == "missing" or outcome.update == "new"]

    def strips(self) -> tuple[StageStrip, ...]:
        """Return the lowerings that tests followed, in the order of the tests."""
        return tuple(strip for strips in self._strips.values() for strip in strips)

    def summary(self, unused: int = 0) -> str:
        """Count the goldens in one line: "3 goldens matched, 1 written"; return "" if there are none."""
        return counted_goldens(self.results.values(), unused)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow an attempt from its setup to its teardown, then write its goldens or drop the texts."""
        key = (str(getattr(report, "worker_id", "")), str(report.nodeid))
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        # Sub-tests report within the call; one that failed spoils the whole.
        self._passing[key] = passed and (report.when == "setup" or self._passing.get(key, False))
        if report.when == "setup":
            self._failed.discard(key)
            self._found.pop(key, None)
        if str(report.outcome) == "failed":
            self._found.setdefault(key, []).extend(extract_numeric_failures(report))
            self._failed.add(key)
            (self._missed if lacked_goldens_only(report) else self._broken).add(str(report.nodeid))
        # An attempt that pytest-rerunfailures repeats does not count; the next one reports anew.
        if report.when == "teardown" and str(report.outcome) != "rerun":
            passed, failed = self._passing.pop(key), key in self._failed
            self._failed.discard(key)
            found = self._found.pop(key, [])
            self.failures += found
            outcomes = extract_outcomes(report)
            if len({outcome.golden for outcome in outcomes}) > 1:
                outcomes = [replace(outcome, is_alone=False) for outcome in outcomes]
            self._strips[str(report.nodeid)] = extract_strips(report)
            if found or any(outcome.status not in ("matched", "updated") for outcome in outcomes):
                file, line, _ = report.location
                self.places[str(report.nodeid)] = (file.replace(os.sep, "/"), (line or 0) + 1)
            for outcome in outcomes:
                self._take(outcome, report, passed=passed, failed=failed)

    def _take(self, outcome: Outcome, report: pytest.TestReport, *, passed: bool, failed: bool) -> None:
        """Write the golden of a finished test, and keep the result."""
        if outcome.has_failed and not failed:  # of a test that expects its mismatch: no command accepts it
            lines = [line for line in outcome.section.split("\n") if not outcome.command or outcome.command not in line]
            outcome = replace(outcome, cluster="", command="", section="\n".join(lines))
        if self._gathering is not None:
            self._held.append(TestOutcome(outcome, passed, failed))
            return
        self._commit(outcome, report, passed=passed, failed=failed)

    def _commit(self, outcome: Outcome, report: pytest.TestReport | None, *, passed: bool, failed: bool) -> None:
        if not outcome.is_file:
            self._take_part(outcome, passed=passed, failed=failed)
            return
        # A golden that this run has written is newer than any copy.
        is_written = outcome.golden in self._writers
        error = None if is_written or report is None else check_remote_golden(outcome, report, self.config)
        if error is not None:
            self.errors.append(error)
        result = outcome.status
        if outcome.new_text is not None:
            may_write = passed and error is None
            result = "written" if may_write and self._write(outcome, outcome.new_text) else "refused"
        self._keep(replace(outcome, status="refused") if result == "refused" else outcome, result)
        if self.config.getoption("fx_received") and outcome.golden not in self._received:
            self._update_received(outcome, passed=passed, failed=failed)

    def _keep(self, outcome: Outcome, result: str) -> None:
        # Without the texts, because a run may see a million lines. A match has none.
        has_texts = outcome.new_text is not None or outcome.received is not None
        self.outcomes.append(replace(outcome, new_text=None, received=None) if has_texts else outcome)
        # One golden may be compared twice. Any other result counts more than a match.
        key = (outcome.nodeid, outcome.golden)
        if result != "matched" or key not in self.results:
            self.results[key] = result

    def _take_part(self, outcome: Outcome, *, passed: bool, failed: bool) -> None:
        """Keep the result of an inline golden or a row. The end of the run writes the text."""
        is_update = outcome.new_text is not None
        self._parts.add(outcome.golden)
        if outcome.row is not None:
            self.rows.take(outcome, passed=passed, failed=failed)
        elif passed or not is_update:
            if self._inline is None:
                from pytest_fxgraph.gate.inline_writes import InlineWrites

                self._inline = InlineWrites(self.config.rootpath)
            self._inline.take(outcome)
        status = "refused" if is_update and not passed else outcome.status
        self._keep(replace(outcome, status=status), "written" if status == "updated" else status)

    @property
    def rows(self) -> RowWrites:
        """The rows of the run."""
        if self._rows is None:
            from pytest_fxgraph.gate.row_writes import RowWrites

            self._rows = RowWrites(self.config)
        return self._rows

    def gather(self, *, has_passed: bool) -> bool:
        """Hand the outcomes to rank 0, or take the outcomes of all ranks and write; nothing without a launch of ranks.

        Returns whether the runs of all other ranks have passed.
        """
        gathering = self._gathering
        if gathering is None:
            return True
        failed = self._missed | self._broken
        if not self.is_writer:
            held = [each.to_data() for each in self._held]
            gathering.deliver({"passed": has_passed, "failed": sorted(failed), "outcomes": held})
            for each in self._held:
                result = ("written" if each.passed else "refused") if each.outcome.new_text else each.outcome.status
                self._keep(each.outcome, result)
            return True
        others, lost = gathering.gather()
        if lost:
            self.errors.append(
                f"cannot gather the goldens of {gathering.size} ranks: rank {', '.join(map(str, lost))} ended without "
                "its results, so that no golden was written; look at its output and run the tests again"
            )
        by_rank = {0: self._held}
        for rank, results in others.items():
            by_rank[rank] = [TestOutcome.of_data(each) for each in results["outcomes"]]
            failed |= set(results["failed"])
        # A test has to pass on all ranks. A rank on which it failed need not have come to its goldens.
        by_rank = {
            rank: [replace(each, passed=each.passed and each.outcome.nodeid not in failed) for each in outcomes]
            for rank, outcomes in by_rank.items()
        }
        gathered = gathered_goldens(by_rank, self._store, self.config)
        self.errors += gathered.errors
        for each in gathered.taken:
            self._commit(each.outcome, None, passed=each.passed and not lost, failed=each.failed)
        for path in () if lost or self.errors else gathered.outdated:
            self._store.remove(path)
            self._store.remove(received_path(path))
        return not lost and all(results["passed"] for results in others.values())

    def finish(self, record: RunRecord | None) -> None:
        """Write inline goldens and rows, at the end of the run; a part that cannot be written is an error.

        With a record of the run, judge the rows that no test asks for.
        """
        parts = [each for each in (self._inline, self._rows) if each is not None]
        for part in parts:
            part.write()
        if record is not None:
            self.rows.judge(record)
        for part in [each for each in (self._inline, self._rows) if each is not None]:
            self.errors += part.errors
        self.told_rows = self.rows.told
        self.written_inline = self._inline.written if self._inline else []
        refused = {(outcome.nodeid, outcome.golden) for part in parts for outcome in part.refused}
        self.results.update(dict.fromkeys(refused, "refused"))
        self.outcomes = [
            replace(outcome, status="refused")
            if outcome.status == "updated" and (outcome.nodeid, outcome.golden) in refused
            else outcome
            for outcome in self.outcomes
        ]

    def _write(self, outcome: Outcome, text: str) -> bool:
        """Write a golden unless another test has written another text to it; tell whether the golden holds the text."""
        first = self._writers.setdefault(outcome.golden, outcome)
        if first.new_text != text:
            self.errors.append(
                f"cannot write {outcome.golden}: {first.nodeid} and {outcome.nodeid} want different graphs in it; "
                "give one of them a name of its own with fx_golden(name=...)"
            )
            return False
        try:
            if not self._store.replace(within_folder(outcome.golden, self.config), text, outcome.expected_digest):
                self.errors.append(
                    f"cannot write {outcome.golden}: another run has changed it since {outcome.nodeid} was compared "
                    "with it; nothing was written, look at it and run the test again"
                )
                return False
        except (GateError, OSError) as error:
            self.errors.append(str(error))
            return False
        if first is outcome:
            self.written.append(outcome.golden)
        return True

    def _update_received(self, outcome: Outcome, *, passed: bool, failed: bool) -> None:
        """Write the received file of a failed test; remove the received file of a golden that a passed test matches."""
        received = received_path(within_folder(outcome.golden, self.config))
        try:
            if failed and outcome.received is not None:
                self._received.add(outcome.golden)
                self._store.write(
                    received, write_received(Received(outcome.received, outcome.expected_digest, outcome.cause))
                )
                self.written_received.append(shown(received, self.config))
            elif passed:
                self._store.remove(received)
        except (GateError, OSError) as error:
            self.errors.append(str(error))
