"""The graphs of a run on their way into its recording."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fxcore import interop
from pytest_fxgraph.compare.structural_hash import structural_hash
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import recorded_at
from pytest_fxgraph.recordings.records import GraphRecord, LeftOutRecord
from pytest_fxgraph.recordings.store import IndexWriter, RecordingStore


class KeptGraphs:
    """Writes each graph once, and a record for each time that a test made it."""

    def __init__(self, store: RecordingStore, index: IndexWriter) -> None:
        self.count = 0
        self._store, self._index = store, index
        self._hashes: dict[str, str] = {}  # by digest of the text: the hash of a text that was met before
        self._test = ""
        self._order = 0

    @contextmanager
    def of_test(self, nodeid: str) -> Iterator[None]:
        """Give all graphs to a test until the context ends."""
        self._test, self._order = nodeid, 0
        try:
            yield
        finally:
            self._test, self._order = "", 0

    def keep(self, kind: str, model: str, graph_module: Any, line: str = "") -> None:
        """Keep a graph module of fxcore or torch.fx as it is now. A graph that no document holds is noted."""
        try:
            text = encode(recorded_at(build_document(interop.from_torch(graph_module)), "structure"))
        except Exception as error:  # whatever it is, the user's test is not to fail for it
            self._index.add(LeftOutRecord(self._test, kind, model, str(error), line))
            return
        graph = self._hash(text)
        self._index.add(GraphRecord(self._test, self._order, kind, model, graph, line))
        self._order += 1
        self.count += 1

    def _hash(self, text: str) -> str:
        from pytest_fxgraph.document.decoding import decode

        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._hashes:
            self._hashes[digest] = structural_hash(decode(text, "a graph of this run"))
            self._store.keep(self._hashes[digest], text)
        return self._hashes[digest]
