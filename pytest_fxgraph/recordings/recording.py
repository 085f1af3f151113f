"""A recording as it is compared: its tests, each with its graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, LeftOutRecord, OutcomeRecord, Record, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore

RERUN = "rerun"  # the outcome of an attempt that another one replaces


@dataclass
class RecordedTest:
    """A test of a recording. Graphs that were made outside any test belong to the test with the id ""."""

    outcome: str = ""  # "" while it has not ended: the process was cut off
    graphs: list[GraphRecord] = field(default_factory=list)
    left_out: list[LeftOutRecord] = field(default_factory=list)
    has_begun: bool = False  # False for a module, a class or a session, whose fixtures made graphs

    def add(self, record: GraphRecord | LeftOutRecord | OutcomeRecord) -> None:
        """Add a record of this test. A failure stays, also if a later part of the test passes."""
        if isinstance(record, GraphRecord):
            self.graphs.append(record)
        elif isinstance(record, LeftOutRecord):
            self.left_out.append(record)
        else:
            self.has_begun = True
            if record.outcome in ("", RERUN):  # the test begins, perhaps once more
                self.outcome = ""
                self.graphs.clear()
                self.left_out.clear()
            elif self.outcome != "failed":
                self.outcome = record.outcome

    @property
    def contents(self) -> list[tuple[str, str, str]]:
        """The graphs without their places in the source."""
        return [(each.kind, each.model, each.graph) for each in self.graphs]


@dataclass
class Recording:
    """All processes of a recording together.

    Where several processes ran a test, the process that started last counts, among the processes where the test ended.
    """

    store: RecordingStore
    runs: Sequence[StartRecord]
    cut_off: Sequence[str]  # processes without an end
    tests: dict[str, RecordedTest]
    disagreeing: Sequence[str] = ()  # tests that several processes ran, with other graphs or another outcome
    modules: Mapping[str, str] = field(default_factory=dict)  # that the processes imported, with their files

    @property
    def interrupted(self) -> list[str]:
        """The tests that began and did not end: their process was cut off in them."""
        return [nodeid for nodeid, test in self.tests.items() if test.has_begun and not test.outcome]

    @classmethod
    def read(cls, store: RecordingStore) -> Recording:
        """Read all indexes of a store. Raises RecordingError if there is none, or one cannot be read."""
        runs: list[StartRecord] = []
        cut_off: list[str] = []
        modules: dict[str, str] = {}
        processes: list[tuple[float, str, dict[str, RecordedTest]]] = []
        for name, records in store.indexes():
            run, tests, end = _read_process(records)
            if run is not None:
                runs.append(run)
            if end is None:
                cut_off.append(name)
            else:
                modules.update(end.modules)
            processes.append((0.0 if run is None else run.started, name, tests))
        attempts: dict[str, list[RecordedTest]] = {}
        for _, _, tests in sorted(processes, key=lambda each: each[:2]):
            for nodeid, test in tests.items():
                attempts.setdefault(nodeid, []).append(test)
        runs.sort(key=lambda run: (run.started, run.process))
        counting = {nodeid: _counting(tests) for nodeid, tests in attempts.items()}
        disagreeing = [nodeid for nodeid, tests in attempts.items() if _disagree(tests)]
        return cls(store, runs, cut_off, counting, disagreeing, modules)


def _read_process(
    records: Iterable[Record],
) -> tuple[StartRecord | None, dict[str, RecordedTest], EndRecord | None]:
    run: StartRecord | None = None
    tests: dict[str, RecordedTest] = {}
    end: EndRecord | None = None
    for record in records:
        if isinstance(record, StartRecord):
            run = record
        elif isinstance(record, EndRecord):
            end = record
        else:
            tests.setdefault(record.test, RecordedTest()).add(record)
    return run, tests, end


def _counting(attempts: Sequence[RecordedTest]) -> RecordedTest:
    """Return the attempt that counts. Without an outcome, return the graphs of all attempts, equal graphs once.

    Modules, fixtures of a session and tests that were cut off have no outcome. Several workers import one module.
    """
    ended = [each for each in attempts if each.outcome]
    if ended:
        return ended[-1]
    graphs: dict[tuple[str, str, str], GraphRecord] = {}
    left_out: dict[LeftOutRecord, None] = {}
    for attempt in attempts:
        for content, graph in zip(attempt.contents, attempt.graphs, strict=True):
            graphs.setdefault(content, graph)
        left_out.update(dict.fromkeys(attempt.left_out))
    return RecordedTest("", [*graphs.values()], [*left_out], any(each.has_begun for each in attempts))


def _disagree(attempts: Sequence[RecordedTest]) -> bool:
    ended = [each for each in attempts if each.outcome]
    return any((each.outcome, each.contents) != (ended[0].outcome, ended[0].contents) for each in ended)
