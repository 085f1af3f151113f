"""The pytest run that records: one index for each process, closed when the session ends."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Generator

import pytest

from pytest_fxgraph import __version__, settings
from pytest_fxgraph.recorder.imported_modules import imported_modules
from pytest_fxgraph.recorder.kept_graphs import KeptGraphs
from pytest_fxgraph.recorder.watched_functions import watched
from pytest_fxgraph.recordings.records import KINDS, EndRecord, OutcomeRecord, RunRecord
from pytest_fxgraph.recordings.store import RecordingStore


class Recorder:
    """Records the graphs of each test. A controller of pytest-xdist runs no test and records nothing."""

    def __init__(self, config: pytest.Config) -> None:
        place = config.getoption("fx_record")
        kinds = tuple(KINDS)
        worker = getattr(config, "workerinput", {}).get("workerid", "")
        run = RunRecord(
            process=f"{os.getpid()}-{secrets.token_hex(4)}",
            arguments=config.invocation_params.args,
            kinds=kinds,
            environment={"python": platform.python_version(), "plugin": __version__, "platform": platform.platform()},
            worker=worker,
        )
        self._index = RecordingStore(place).new_index(run)
        self._kept = KeptGraphs(RecordingStore(place), self._index)
        self._tests = 0
        self._is_worker = settings.is_worker(config)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the graphs between the setup and the teardown of a test."""
        with self._kept.of_test(item.nodeid), watched(self._kept):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended; it has ended when its teardown has."""
        if report.when == "call" or report.outcome != "passed":
            self._index.add(OutcomeRecord(report.nodeid, report.outcome))
        if report.when == "teardown":
            self._tests += 1
            self._index.flush()

    def pytest_sessionfinish(self) -> None:
        """End the index."""
        self._index.add(EndRecord(self._tests, self._kept.count, imported_modules()))
        self._index.close()
