"""A recording at its place: `graphs/<hash>.yaml` for each graph, and `index/<process>.jsonl` for each process.

Processes write side by side without a lock, because each writes an index of its own, and every text of a graph is as
good as another one under its hash. For the same reasons recordings merge by copying one over another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.goldens.lock import TEMPORARY_SUFFIX
from pytest_fxgraph.recordings.place import Folder, Place, StoredFile, place_at
from pytest_fxgraph.recordings.records import GraphRecord, Record, StartRecord, from_line, to_line

GRAPHS, INDEX = "graphs", "index"
# An object store cannot append. There, a process that is cut off loses the tests of its last seconds.
SECONDS_BETWEEN_PARTS = 10.0

# A process writes its graphs before its index names them.
_NEW_GRAPH = 24 * 3600.0  # seconds
_GRAPH_SUFFIX, _INDEX_SUFFIX = ".yaml", ".jsonl"
_HEADER = re.compile(rb"# graph ([0-9a-f]+) sha256:([0-9a-f]{64})\r?\n")
_INDEX_NAME = re.compile(r"(?P<process>[^.]+)(?:\.(?P<part>\d+))?\.jsonl\Z")


class RecordingStore:
    """The recording at one place, or the recordings in the folders of the place, as their merge."""

    def __init__(self, place: str) -> None:
        self._place = place_at(place)
        self.place = self._place.shown

    @cached_property
    def parts(self) -> list[Place]:
        """The places with an index: this one, or folders here. Raises RecordingError if there is none."""
        places = [self._place, *self._place.folders()]
        found = [each for each in places if any(_INDEX_NAME.match(_name(file)) for file in each.files(INDEX))]
        if not found:
            raise RecordingError(f"{self.place} holds no recording; write one by pytest --fx-record {self.place}")
        return found

    def keep(self, graph: str, text: str) -> None:
        """Keep the text of a graph under its hash, whole or not at all. A whole text that is there stays."""
        path, content = _graph_path(graph), text.encode("utf-8", "surrogatepass")
        if isinstance(self._place, Folder):
            found = self._place.read(path)
            if found is not None and _checked(found, graph) == "":
                self._place.renew(path)
                return
        # In an object store a second write of an equal graph costs less than the question whether the graph is there.
        self._place.write(path, f"# graph {graph} sha256:{golden_digest(content)}\n".encode() + content)

    def text(self, graph: str) -> str:
        """Return the text of a graph. Raises RecordingError if no whole text is there."""
        problem = "there is none; copy it from the recording of its shard, or record the run again"
        for part in self.parts:
            content = part.read(_graph_path(graph))
            if content is not None:
                damage = _checked(content, graph)
                if not damage:
                    return content.partition(b"\n")[2].decode("utf-8", "surrogatepass")
                problem = f"{damage}; remove {part.shown_path(_graph_path(graph))} and record the run again"
        raise RecordingError(f"cannot read the graph {graph} of {self.place}: {problem}")

    def new_index(self, run: StartRecord) -> IndexWriter:
        """Begin the index of a process. The run's time is now, if the run names none."""
        return IndexWriter(self._place, run if run.started else run._replace(started=time.time()))

    def indexes(self) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the name and the records of each process. Raises RecordingError if there is none."""
        for part in self.parts:
            for process, files in index_files(part).items():
                yield process, records_of(part, files)


class IndexWriter:
    """The index that one process writes: a file that grows, or in an object store one file after another."""

    def __init__(self, place: Place, run: StartRecord, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._process, self._clock = place, run.process, clock
        self._pending: list[str] = []
        self._parts = 0
        self._written_at = 0.0
        if place.read(self._path) is not None:
            raise RecordingError(
                f"cannot write {place.shown_path(self._path)}: another process has this name; record the run again"
            )
        self.add(run)
        self.close()

    def add(self, record: Record) -> None:
        """Add a record."""
        self._pending.append(to_line(record) + "\n")

    def flush(self) -> None:
        """Write the records of a test that ended. To an object store, write at most every ten seconds.

        Raises RecordingError if that fails; the next call tries again.
        """
        if isinstance(self._place, Folder) or self._clock() - self._written_at >= SECONDS_BETWEEN_PARTS:
            self.close()

    def close(self) -> None:
        """Write all records. Add the EndRecord before, unless the process was cut off. Raises as `flush` does."""
        if not self._pending:
            return
        content = "".join(self._pending).encode("utf-8", "backslashreplace")  # an escape of JSON, too
        if isinstance(self._place, Folder) and self._parts:
            self._place.append(self._path, content)
        else:
            self._place.write(self._path, content)
        self._pending.clear()
        self._parts += 1
        self._written_at = self._clock()

    @property
    def _path(self) -> str:
        part = "" if isinstance(self._place, Folder) else f".{self._parts:06}"
        return f"{INDEX}/{self._process}{part}{_INDEX_SUFFIX}"


def index_files(place: Place) -> dict[str, list[StoredFile]]:
    """Return the files of each process. Raises RecordingError if one in the middle is missing."""
    processes: dict[str, list[StoredFile]] = {}
    for file in place.files(INDEX):
        name = _INDEX_NAME.match(_name(file))
        if name is not None:
            files = processes.setdefault(name["process"], [])
            if name["part"] is not None and int(name["part"]) != len(files):
                raise RecordingError(
                    f"cannot read {place.shown_path(file.path)}: part {len(files)} of this index is missing; "
                    "copy the whole recording again"
                )
            files.append(file)
    return processes


def graph_files(place: Place) -> dict[str, StoredFile]:
    """Return the files of graphs by hash."""
    found = ((_name(file), file) for file in place.files(GRAPHS))
    return {name.removesuffix(_GRAPH_SUFFIX): file for name, file in found if name.endswith(_GRAPH_SUFFIX)}


def records_of(place: Place, files: list[StoredFile]) -> Iterator[Record]:
    """Yield the records of a process. Raises RecordingError for a line that is no record."""
    for file in files:
        content = place.read(file.path) or b""
        # A last line without an end was being written when the process was cut off.
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            yield from_line(line.decode("utf-8", "replace"), f"{place.shown_path(file.path)}, line {number}")


def _checked(content: bytes, graph: str) -> str:
    """Return the damage of a graph's file; "" for a whole file."""
    header = _HEADER.match(content)
    if header is None:
        return "its first line does not name the graph, so pytest --fx-record did not write it"
    if header[1].decode() != graph:
        return f"it holds the graph {header[1].decode()}"
    if header[2].decode() != golden_digest(content[header.end() :]):
        return "it was cut off or changed since it was written"
    return ""


def _graph_path(graph: str) -> str:
    return f"{GRAPHS}/{graph}{_GRAPH_SUFFIX}"


def _name(file: StoredFile) -> str:
    return file.path.rpartition("/")[2]


# Old recordings, and the graphs that no recording needs.


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
