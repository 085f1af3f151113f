"""What is done once a run is over: unused goldens are judged and pruned, reports are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_fxgraph import settings
from pytest_fxgraph.golden.collection import CollectionRecord
from pytest_fxgraph.golden.session import GoldenSession
from pytest_fxgraph.golden.unused import GoldenUsage, run_record
from pytest_fxgraph.report.json_report import RunReport, json_text
from pytest_fxgraph.report.run_record import RunRecord


class RunEnd:
    """Closes a run. Lives in the main process alone, under pytest-xdist the controller."""

    def __init__(self, goldens: GoldenSession, census: CollectionRecord | None) -> None:
        self._goldens = goldens
        self._census = census  # None where nobody wants to know
        self._config = goldens.config
        self._usage = GoldenUsage(self._config)
        self._sections: list[str] = []
        self._reports: list[str] = []
        self._errors: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """Judge, prune and report; a run that could not do what it was asked to do fails."""
        self._sections = self._own_sections()
        if self._census is not None:
            record = run_record(self._config, self._census, self._goldens.asked(), exitstatus)
            self._usage.judge(record)
            if self._config.getoption("fx_prune_golden"):
                self._usage.prune()
            for path in self._config.getoption("fx_report"):
                self._write(path, record)
        fails = bool(self._usage.unused) and settings.value_of_config(settings.UNUSED_GOLDENS, self._config) == "fail"
        if session.exitstatus == pytest.ExitCode.OK and (fails or self._errors or self._usage.errors):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _own_sections(self) -> list[str]:
        """Ask the hooks for what they have to say about the outcomes."""
        if not self._goldens.outcomes:
            return []
        hook = self._config.hook.pytest_fxgraph_report_section
        return [str(text).rstrip() for text in hook(outcomes=tuple(self._goldens.outcomes)) if text]

    def _write(self, path: str, record: RunRecord) -> None:
        place = Path(self._config.invocation_params.dir, path)
        report = RunReport(
            self._goldens.summary(), record, self._goldens.outcomes, self._usage.unused, tuple(self._sections)
        )
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json_text(report), encoding="utf-8")
            self._reports.append(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._errors.append(f"cannot write the report {path}: {reason}; make room or give permission")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what hooks have to say, which goldens are unused, and where the reports are."""
        lines = [line for section in self._sections for line in section.split("\n")]
        if self._config.getoption("fx_prune_golden") or self._tells_unused():
            lines += [f"fx: {line}" for line in self._usage.lines()]
        lines += [f"fx: wrote the report {path}" for path in self._reports]
        if lines:
            terminalreporter.ensure_newline()
        for line in lines:
            terminalreporter.write_line(line)
        for error in [*self._usage.errors, *self._errors]:
            terminalreporter.write_line(f"fx: {error}", red=True)

    def _tells_unused(self) -> bool:
        return bool(settings.value_of_config(settings.UNUSED_GOLDENS, self._config) != "ignore")
