"""The one place that writes goldens: it listens to reports, and commits what a test wants once the test has passed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pytest_fxgraph.accepting_command import tell_worker
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden_folder import golden_root, within_folder
from pytest_fxgraph.received_files import ReceivedFiles
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report_cargo import take_over
from pytest_fxgraph.worker_copies import WorkerCopies

# How the summary counts the goldens, in this order, in words that stand after a number.
_COUNTED = {
    "matched": "matched",
    "written": "written",
    "mismatch": "differs",
    "missing": "missing",
    "error": "unreadable",
    "refused": "not written",
}


@dataclass(eq=False)
class GoldenSession:
    """What became of all goldens of a run. Lives in the main process alone, under pytest-xdist the controller."""

    config: pytest.Config
    fates: dict[tuple[str, str], str] = field(default_factory=dict)  # by test and golden
    written: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)  # of last attempts
    _received: ReceivedFiles = field(init=False)
    _copies: WorkerCopies = field(init=False)
    _failed: set[tuple[str, str]] = field(default_factory=set)  # attempts under way in which something failed
    _clean: dict[tuple[str, str], bool] = field(default_factory=dict)  # attempts under way, by worker and test
    _claims: dict[str, Outcome] = field(default_factory=dict)  # who had what written, by golden

    def __post_init__(self) -> None:
        self._received = ReceivedFiles(self.config)
        self._copies = WorkerCopies(self.config)

    def asked(self) -> set[str]:
        """Name the goldens that tests asked for, whatever became of them."""
        return {golden for _, golden in self.fates}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker what only this process knows."""
        tell_worker(node)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow an attempt from its setup to its teardown, then commit or drop what it wants to write."""
        key = (str(getattr(report, "worker_id", "")), str(report.nodeid))
        passed = report.outcome == "passed" and not hasattr(report, "wasxfail")
        # Sub-tests report within the call; one that failed spoils the whole.
        self._clean[key] = passed and (report.when == "setup" or self._clean.get(key, False))
        if report.when == "setup":
            self._failed.discard(key)
        if str(report.outcome) == "failed":
            self._failed.add(key)
        # An attempt that pytest-rerunfailures repeats does not count; the next one reports anew.
        if report.when == "teardown" and str(report.outcome) != "rerun":
            passed = self._clean.pop(key)
            failed = key in self._failed
            self._failed.discard(key)
            for outcome in take_over(report):
                # What was written in this run is newer than any copy.
                trouble = None if outcome.golden in self._claims else self._copies.trouble(outcome, report)
                self.errors += [trouble] if trouble is not None else []
                self._conclude(outcome, passed=passed and trouble is None)
                self._received.conclude(outcome, passed=passed, failed=failed)

    def _conclude(self, outcome: Outcome, *, passed: bool) -> None:
        key = (outcome.nodeid, outcome.golden)
        fate = outcome.status
        if outcome.new_text is not None:
            fate = "written" if passed and self._commit(outcome, outcome.new_text) else "refused"
        status = "refused" if fate == "refused" else outcome.status
        # Without the texts, of which a run may see a million lines.
        self.outcomes.append(replace(outcome, status=status, new_text=None, received=None))
        # One golden may be compared twice; what happened to it goes before "it matched the other time".
        if fate != "matched" or key not in self.fates:
            self.fates[key] = fate

    def _commit(self, outcome: Outcome, text: str) -> bool:
        claim = self._claims.setdefault(outcome.golden, outcome)
        if claim.new_text != text:
            self.errors.append(
                f"cannot write {outcome.golden}: {claim.nodeid} and {outcome.nodeid} want different graphs in it; "
                "give one of them a name of its own with fx_golden(name=...)"
            )
            return False
        from pytest_fxgraph.document.golden_store import GoldenStore  # here, as it imports yaml

        try:
            GoldenStore(golden_root(self.config)).write(within_folder(outcome.golden, self.config), text)
        except (GateError, OSError) as error:
            self.errors.append(str(error))
            return False
        if claim is outcome:
            self.written.append(outcome.golden)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that could not write what it was asked to write."""
        self.errors += self._received.errors
        if self.errors and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how the goldens fared, which were written, and which could not be."""
        if not self.fates:
            return
        terminalreporter.ensure_newline()
        for golden in self.written:
            terminalreporter.write_line(f"fx: wrote {golden}")
        for received in self._received.written:
            terminalreporter.write_line(f"fx: wrote {received}")
        if self._received.written:
            terminalreporter.write_line("fx: read them with `fxgraph diff`, accept them with `fxgraph accept`")
        for error in self.errors:
            terminalreporter.write_line(f"fx: {error}", red=True)
        terminalreporter.write_line(f"fx: {self.summary()}")

    def summary(self) -> str:
        """Count the goldens in one line: "3 goldens matched, 1 written"; nothing where there are none."""
        if not self.fates:
            return ""
        counts = Counter(self.fates.values())
        parts = [(counts[fate], words) for fate, words in _COUNTED.items() if counts[fate]]
        counted = [f"{count} {'differ' if words == 'differs' and count > 1 else words}" for count, words in parts]
        number, _, rest = counted[0].partition(" ")
        return ", ".join([f"{number} golden{'' if number == '1' else 's'} {rest}", *counted[1:]])
