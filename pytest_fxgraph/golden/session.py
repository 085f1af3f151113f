"""The one place that writes goldens: it listens to reports, and commits what a test wants once the test has passed."""

from __future__ import annotations

import pytest
from pytest_fxgraph.golden.files import Received, received_path, write_received
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden.paths import golden_root, shown, within_folder
from pytest_fxgraph.report.outcome import Outcome
from typing import Any
import pytest
from pytest_fxgraph.golden.files import golden_digest
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden.paths import golden_root, within_folder
from pytest_fxgraph.report.outcome import Outcome
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
import pytest
from pytest_fxgraph.golden.paths import tell_worker
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden.paths import golden_root, within_folder
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.golden.attempt import extract_outcomes


class ReceivedFiles:
    """The received files of a run that was asked for them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_wanted = bool(config.getoption("fx_received"))
        self._kept: set[str] = set()
        self.written: list[str] = []
        self.errors: list[str] = []

    def conclude(self, outcome: Outcome, *, passed: bool, failed: bool) -> None:
        """Write what a failed test received; remove what was received once for a golden that a passed test matches."""
        if not self._is_wanted:
            return
        received = received_path(within_folder(outcome.golden, self._config))
        from pytest_fxgraph.golden.store import GoldenStore  # here, as it imports yaml

        store = GoldenStore(golden_root(self._config))
        try:
            if failed and outcome.received is not None and outcome.golden not in self._kept:
                self._kept.add(outcome.golden)
                store.write(received, write_received(Received(outcome.received, outcome.expected_digest)))
                self.written.append(shown(received, self._config))
            elif passed and outcome.golden not in self._kept:
                store.remove(received)
        except (GateError, OSError) as error:
            self.errors.append(str(error))


class RemoteGoldens:
    """Notices a worker that compared with another golden than the one that lies here."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def trouble(self, outcome: Outcome, report: pytest.TestReport) -> str | None:
        """Say what is wrong with the golden that a remote worker compared with; None where nothing is.

        Asked before anything is written for the outcome: what a worker calls new may have been here for long.
        """
        if not _ran_elsewhere(report):
            return None
        from pytest_fxgraph.golden.store import GoldenStore  # here, as it imports yaml

        try:
            digest = GoldenStore(golden_root(self._config)).digest(within_folder(outcome.golden, self._config))
        except (GateError, OSError, ValueError):
            return None  # a golden that cannot be read here has its own words
        is_wanted = outcome.new_text is not None and digest == golden_digest(outcome.new_text.encode())
        if digest == outcome.expected_digest or is_wanted:
            return None
        if outcome.expected_digest is None:
            words = "it has no copy of it, and one lies here"
        else:
            words = f"its copy is not {'the one here' if digest else 'here'}"
        worker = getattr(report, "worker_id", "a worker")
        return f"cannot trust what {worker} says of {outcome.golden}: {words}; bring both machines to one revision"


def _ran_elsewhere(report: pytest.TestReport) -> bool:
    """Tell whether a report comes from a worker of pytest-xdist that has a disk, or a folder, of its own."""
    node: Any = getattr(report, "node", None)
    spec = getattr(getattr(node, "gateway", None), "spec", None)
    if spec is None:
        return False
    return not getattr(spec, "popen", False) or getattr(spec, "chdir", None) is not None


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
    _copies: RemoteGoldens = field(init=False)
    _failed: set[tuple[str, str]] = field(default_factory=set)  # attempts under way in which something failed
    _clean: dict[tuple[str, str], bool] = field(default_factory=dict)  # attempts under way, by worker and test
    _claims: dict[str, Outcome] = field(default_factory=dict)  # who had what written, by golden

    def __post_init__(self) -> None:
        self._received = ReceivedFiles(self.config)
        self._copies = RemoteGoldens(self.config)

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
            for outcome in extract_outcomes(report):
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
        from pytest_fxgraph.golden.store import GoldenStore  # here, as it imports yaml

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
