"""The graphs of a run on their way into its recording."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import GraphRecord, LeftOutRecord, OutcomeRecord
from pytest_fxgraph.recordings.store import IndexWriter, RecordingStore

# The reader of graphs is imported with the first graph, because it imports torch.
_LONGEST_REASON = 500


class KeptGraphs:
    """Writes each graph once, and a record for each time that a test made it.

    Records of a test are written when the test has ended: a rerun drops the records of the attempt before.
    """

    def __init__(self, store: RecordingStore, index: IndexWriter, kinds: Collection[str], rootpath: Path) -> None:
        self.kinds = frozenset(kinds)
        self.test = ""  # the id of the running test; "" outside any test
        self.made: Counter[str] = Counter()  # graphs by kind
        self.failure = ""  # the first error of the store
        self._left_out = 0
        self._tests: set[str] = set()
        self._tests_with_graphs: set[str] = set()
        self._store, self._index = store, index
        self._root = str(rootpath) + os.sep
        self._hashes: dict[str, str] = {}  # by digest of the text: the hash of a text that was met before
        self._records: dict[str, list[GraphRecord | LeftOutRecord]] = {}  # by test, not yet written
        self._numbers: Counter[str] = Counter()  # graphs written, by test

    def begin(self, test: str) -> None:
        """Give all graphs to a test from now on. An earlier attempt of the test is forgotten."""
        self.test = test
        self._tests.add(test)
        self._records.pop(test, None)
        self._index.add(OutcomeRecord(test, ""))
        self._flush()

    @contextmanager
    def shared_by(self, node: str) -> Iterator[None]:
        """Give all graphs of a with block to a node of the collection, "" for the session.

        They are of a fixture that several tests share: the test that comes first depends on the order of the tests.
        """
        test, self.test = self.test, node
        try:
            yield
        finally:
            self.test = test

    def end(self) -> None:
        """Write the records of the test that ran, and of anything outside tests."""
        for test, records in self._records.items():
            for record in records:
                if isinstance(record, GraphRecord):
                    self._index.add(record._replace(order=self._numbers[test]))
                    self._numbers[test] += 1
                    self.made[record.kind] += 1
                    self._tests_with_graphs.add(test)
                else:
                    self._index.add(record)
                    self._left_out += 1
        self._records.clear()
        self._flush()
        self.test = ""

    def _flush(self) -> None:
        try:
            self._index.flush()
        except RecordingError as error:  # told at the end of the run
            self.failure = self.failure or str(error)

    def counts(self) -> dict[str, int]:
        """Return the numbers of graphs by kind, of tests with graphs, and of graphs that were left out."""
        return {**self.made, "tests": len(self._tests_with_graphs & self._tests), "left out": self._left_out}

    def has_graphs(self) -> bool:
        """Tell whether the running test made a graph."""
        return any(isinstance(record, GraphRecord) for record in self._records.get(self.test, ()))

    def keep(
        self, kind: str, model: str, line: str, describe: Callable[[], Any], facts: Mapping[str, Any] | None = None
    ) -> GraphRecord | LeftOutRecord | None:
        """Keep the graph that `describe` returns as a document. A graph that no document holds is noted.

        Whatever goes wrong, the user's test does not fail for it. Return the record, None if the kind is not wanted.
        """
        if kind not in self.kinds:
            return None
        try:
            from pytest_fxgraph.captures.torch_internals import modes_off

            with modes_off(), warnings_ignored():
                return self.note(kind, model, line, self.hash_of(describe()), facts)
        except Exception as error:
            return self.leave_out(kind, model, line, reason_of(error))

    def note(self, kind: str, model: str, line: str, graph: str, facts: Mapping[str, Any] | None = None) -> GraphRecord:
        """Note that the running test made a graph that the store has."""
        record = GraphRecord(self.test, 0, kind, model, graph, line, {} if facts is None else facts)
        self._records.setdefault(self.test, []).append(record)
        return record

    def leave_out(self, kind: str, model: str, line: str, reason: str) -> LeftOutRecord:
        """Note that the running test made a graph that cannot be kept."""
        record = LeftOutRecord(self.test, kind, model, reason.replace(self._root, ""), line)
        self._records.setdefault(self.test, []).append(record)
        return record

    def withdraw(self, record: GraphRecord | LeftOutRecord | None) -> None:
        """Forget a record of the running test."""
        if record is not None:
            records = self._records[record.test]
            records[:] = [each for each in records if each is not record]

    def hash_of(self, document: Any) -> str:
        """Return the hash of a document, and keep its text in the store. A text is hashed once."""
        from pytest_fxgraph.compare.structural_hash import structural_hash
        from pytest_fxgraph.document.decoding import decode
        from pytest_fxgraph.document.encoding import encode
        from pytest_fxgraph.document.model import recorded_at, without_code

        text = encode(without_code(recorded_at(document, "structure")))
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._hashes:
            graph = structural_hash(decode(text, "a graph of this run"))
            try:
                self._store.keep(graph, text)
            except RecordingError as error:
                self.failure = self.failure or str(error)
                raise
            self._hashes[digest] = graph
        return self._hashes[digest]


def reason_of(error: BaseException) -> str:
    """Return the first line of an error, as the reason why a graph was left out."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:_LONGEST_REASON]


@contextmanager
def warnings_ignored() -> Iterator[None]:
    """Show no warning in a with block."""
    # warnings.catch_warnings would forget the warnings that were shown already, and Python would show them again.
    ignore: Any = ("ignore", None, Warning, None, 0)
    warnings.filters.insert(0, ignore)  # type: ignore[attr-defined]  # typed as a sequence
    try:
        yield
    finally:
        if ignore in warnings.filters:
            warnings.filters.remove(ignore)  # type: ignore[attr-defined]
