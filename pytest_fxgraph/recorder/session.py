"""The pytest run that records: one index for each process, closed when the session ends."""

from __future__ import annotations

import os
import secrets
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from types import TracebackType
from typing import Any

import pytest

from pytest_fxgraph import __version__, settings
from pytest_fxgraph.choices import RECORDED_KINDS
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.gate.environment import environment_of_run
from pytest_fxgraph.recorder.kept_graphs import KeptGraphs
from pytest_fxgraph.recorder.module_calls import ModuleCalls
from pytest_fxgraph.recorder.replacements import Replacements
from pytest_fxgraph.recorder.watched_functions import WatchedFunctions
from pytest_fxgraph.recordings.records import IS_OF_COMMAND, EndRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.report.printable import counted

_SENT = "fxgraph_recorded"  # in a worker's output
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Summary:
    """Tells at the end of the run how many graphs were recorded, by all processes together."""

    def __init__(self, place: str, config: pytest.Config) -> None:
        self._place, self._config = place, config
        self._counts: Counter[str] = Counter()
        self._failures: list[str] = []

    def add(self, sent: Mapping[str, Any]) -> None:
        """Add the numbers of one process."""
        self._counts.update(sent["counts"])
        self._failures += [sent["failure"]] if sent["failure"] else []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the numbers of a worker; a worker that crashed sends nothing."""
        sent = getattr(node, "workeroutput", {}).get(_SENT)
        if sent:
            self.add(sent)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write one line."""
        terminalreporter.write_line(self.line())
        for failure in dict.fromkeys(self._failures):
            terminalreporter.write_line(f"the recording is not complete: {failure}")

    def line(self) -> str:
        """Return the line: `recorded 31 graphs of 12 tests in DIR: 20 symbolic, 11 export; 3 left out (see ...)`.

        The run of a command names no folder, because the command removes it.
        """
        is_kept = IS_OF_COMMAND not in os.environ
        place, index = (f" in {self._place}", f" (see {self._place.rstrip('/')}/index)") if is_kept else ("", "")
        counts = self._counts
        kinds = [f"{counts[kind]} {kind}" for kind in RECORDED_KINDS if counts[kind]]
        left_out = f"{counts['left out']} left out{index}" if counts["left out"] else ""
        if kinds:
            number = counted(sum(counts[kind] for kind in RECORDED_KINDS), "graph")
            found = f"recorded {number} of {counted(counts['tests'], 'test')}{place}: {', '.join(kinds)}"
            return f"{found}; {left_out}" if left_out else found
        found = f"recorded no graph{place}: no test traced, exported or compiled a model"
        return f"{found}; {left_out}" if left_out else f"{found}{self._advice()}"

    def _advice(self) -> str:
        if "module" in settings.recorded_kinds(self._config):
            return ", and no test called an nn.Module; check that the run has the tests of your models"
        return "; add module to --fx-record-kinds, which traces the modules that tests call"


class Recorder:
    """Records the graphs of each test of one process."""

    def __init__(self, config: pytest.Config, place: str, summary: Summary | None) -> None:
        self._summary = summary
        self._config = config
        kinds = settings.recorded_kinds(config)
        run = StartRecord(
            process=f"{os.getpid()}-{secrets.token_hex(8)}",
            arguments=[str(each) for each in config.invocation_params.args],
            kinds=kinds,
            environment={**environment_of_run(config.rootpath), "plugin": __version__},
            worker=getattr(config, "workerinput", {}).get("workerid", ""),
            seeded=bool(config.getoption("fx_record_seeded")),
        )
        store = RecordingStore(place)
        self._index = store.new_index(run)
        self._kept = KeptGraphs(store, self._index, kinds, config.rootpath)
        self._functions = WatchedFunctions(self._kept, config.rootpath)
        self._modules = ModuleCalls(self._kept, self._functions, config.rootpath)
        self._replacements = Replacements()
        self._tests = 0
        self._functions.add_to(self._replacements)
        self._modules.add_to(self._replacements)
        self._replacements.begin()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the graphs between the setup and the teardown of a test, and trace its modules afterwards."""
        try:
            return (yield)
        finally:
            self._modules.end()
            self._kept.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin a test, or another attempt of one."""
        self._kept.begin(item.nodeid)
        self._modules.begin()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        """Give the graphs of a fixture that tests share to the module, class, package or session that it is for."""
        if fixturedef.scope == "function":
            return (yield)
        with self._kept.shared_by(request.node.nodeid):
            return (yield)

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Take the recorder's frames out of the tracebacks of a failure, after pytest found the errors of unittest."""
        if call.excinfo is not None:
            without_recorder(call.excinfo.value)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended; it has ended when its teardown has."""
        if report.when == "call" or report.outcome != "passed":
            self._index.add(OutcomeRecord(report.nodeid, report.outcome))
        self._tests += report.when == "teardown"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the index. Without its end, the process reads as cut off."""
        self._kept.end()
        for kind, (module, name) in self._replacements.missing.items():
            self._kept.leave_out(kind, "", "", f"this torch has no {module}.{name}, from which the graphs are read")
        self._kept.end()
        try:
            self._index.add(EndRecord(self._tests, sum(self._kept.made.values()), imported_modules()))
            self._index.close()
        except RecordingError as error:
            self._kept.failure = self._kept.failure or str(error)
        sent = {"counts": self._kept.counts(), "failure": self._kept.failure}
        if self._summary is not None:
            self._summary.add(sent)
        elif settings.is_worker(self._config):
            self._config.workeroutput[_SENT] = sent  # type: ignore[attr-defined]  # pytest-xdist's

    def pytest_unconfigure(self) -> None:
        """Put the watched functions back."""
        self._modules.off()
        self._replacements.end()


def register_recorder(config: pytest.Config) -> None:
    """Register the hooks of this process: a controller of pytest-xdist runs no test, and shows the summary."""
    given = str(config.getoption("fx_record"))
    # The run may change its folder.
    place = given if "://" in given else os.path.join(config.invocation_params.dir, given)
    summary = None if settings.is_worker(config) else Summary(given, config)
    try:
        if summary is not None:
            config.pluginmanager.register(summary, "fxgraph-recorder-summary")
        if not settings.is_controller(config):
            config.pluginmanager.register(Recorder(config, place, summary), "fxgraph-recorder")
    except RecordingError as error:
        raise pytest.UsageError(f"--fx-record: {error}") from None


def imported_modules() -> dict[str, str]:
    """Map each imported module outside any package to its file, Python's own modules left out.

    A namespace package has no file; the first of its folders counts.
    """
    found: dict[str, str] = {}
    for name, module in [*sys.modules.items()]:
        if "." in name or name in sys.stdlib_module_names:
            continue
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if isinstance(file, str):
            found[name] = file
    return found


# Tracebacks without the recorder, as a run without a recording has them.


def without_recorder(error: BaseException) -> None:
    """Take the frames of the recorder out of the tracebacks of an error and of the errors that led to it."""
    for each in _led_to(error):
        each.__traceback__ = _without_frames(each.__traceback__)


def _led_to(error: BaseException) -> Iterator[BaseException]:
    unvisited, seen = [error], set[int]()
    while unvisited:
        each = unvisited.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            unvisited += [other for other in (each.__cause__, each.__context__) if other is not None]
            unvisited += getattr(each, "exceptions", ())  # of a group


def _without_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    entry = traceback
    while entry is not None:
        while entry.tb_next is not None and _is_ours(entry.tb_next):
            entry.tb_next = entry.tb_next.tb_next
        entry = entry.tb_next
    return traceback


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_HERE)
