"""Old recordings and the graphs that no recording needs, removed from a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_fxgraph.goldens.lock import TEMPORARY_SUFFIX
from pytest_fxgraph.recordings.place import Place, StoredFile
from pytest_fxgraph.recordings.records import GraphRecord, StartRecord
from pytest_fxgraph.recordings.store import GRAPHS, INDEX, RecordingStore, graph_files, index_files, records_of

# A process writes its graphs before its index names them.
_NEW_GRAPH = 24 * 3600.0  # seconds


@dataclass(frozen=True)
class Removal:
    """The files of one place that go, indexes first."""

    place: Place
    indexes: Sequence[StoredFile]
    graphs: Sequence[StoredFile]

    @property
    def files(self) -> list[StoredFile]:
        """All files, in an order that leaves no index without its graphs when the removal is interrupted."""
        return [*self.indexes, *self.graphs]

    def remove(self) -> None:
        """Remove the files. Raises RecordingError if one cannot be removed."""
        for file in self.files:
            self.place.remove(file.path)


def removals(store: RecordingStore, older_than: float, now: float) -> list[Removal]:
    """Find the indexes of processes that started more than `older_than` seconds ago, and the graphs only they need.

    A graph of the last day stays, because the index of its process may not name it yet. Raises RecordingError if an
    index cannot be read, because its graphs are unknown.
    """
    return [_removal(part, now - older_than, now - min(older_than, _NEW_GRAPH)) for part in store.parts]


def _removal(place: Place, oldest: float, oldest_graph: float) -> Removal:
    old: list[StoredFile] = []
    needed: set[str] = set()
    for files in index_files(place).values():
        started = files[0].modified
        graphs: set[str] = set()
        for record in records_of(place, files):
            if isinstance(record, StartRecord):
                started = record.started or started
            elif isinstance(record, GraphRecord):
                graphs.add(record.graph)
        if started < oldest:
            old += files
        else:
            needed |= graphs
    unneeded = [file for graph, file in graph_files(place).items() if graph not in needed]
    left = [each for name in (GRAPHS, INDEX) for each in place.files(name) if each.path.endswith(TEMPORARY_SUFFIX)]
    return Removal(place, old, [file for file in (*unneeded, *left) if file.modified < oldest_graph])
