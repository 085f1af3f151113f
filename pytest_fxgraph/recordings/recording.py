"""A recording as it is compared: its tests, each with its graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, LeftOutRecord, OutcomeRecord, RunRecord
from pytest_fxgraph.recordings.store import RecordingStore


@dataclass
class RecordedTest:
    """A test of a recording. Graphs that were made outside any test belong to the test with the id ""."""

    outcome: str = ""  # "" while it has not ended: the process was cut off
    graphs: list[GraphRecord] = field(default_factory=list)
    left_out: list[LeftOutRecord] = field(default_factory=list)


@dataclass
class Recording:
    """All processes of a recording together."""

    store: RecordingStore
    runs: Sequence[RunRecord]
    cut_off: Sequence[str]  # processes without an end
    tests: dict[str, RecordedTest]

    @classmethod
    def read(cls, store: RecordingStore) -> Recording:
        """Read all indexes of a store. Raises RecordingError if there is none, or one cannot be read."""
        runs: list[RunRecord] = []
        cut_off: list[str] = []
        tests: dict[str, RecordedTest] = {}
        for name, records in store.indexes():
            has_ended = False
            for record in records:
                if isinstance(record, RunRecord):
                    runs.append(record)
                elif isinstance(record, EndRecord):
                    has_ended = True
                else:
                    test = tests.setdefault(record.test, RecordedTest())
                    if isinstance(record, GraphRecord):
                        test.graphs.append(record)
                    elif isinstance(record, LeftOutRecord):
                        test.left_out.append(record)
                    elif isinstance(record, OutcomeRecord):
                        test.outcome = record.outcome
            if not has_ended:
                cut_off.append(name)
        return cls(store, runs, cut_off, tests)
