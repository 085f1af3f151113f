"""A recording on disk: `graphs/<hash>.yaml` for each graph, and `index/<process>.jsonl` for each process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.goldens.store import write_whole
from pytest_fxgraph.recordings.records import Record, RunRecord, from_line, to_line


class RecordingStore:
    """The recording at one place. Processes write side by side, because no two write to one file."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._root = Path(place)

    def has_graph(self, graph: str) -> bool:
        """Tell whether the graph of a hash is there."""
        return self._graph_path(graph).exists()

    def keep(self, graph: str, text: str) -> None:
        """Keep the text of a graph under its hash, whole or not at all. A text that is there stays."""
        if not self.has_graph(graph):
            write_whole(self._graph_path(graph), text, "graph")

    def text(self, graph: str) -> str:
        """Return the text of a graph. Raises RecordingError if it is not there."""
        try:
            return self._graph_path(graph).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise RecordingError(
                f"cannot read the graph {graph} of {self.place}: there is none; record the run again"
            ) from None

    def new_index(self, run: RunRecord) -> IndexWriter:
        """Begin the index of a process."""
        path = self._root / "index" / f"{run.process}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return IndexWriter(path, run)

    def indexes(self) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the name and the records of each index. Raises RecordingError where there is none."""
        found = sorted((self._root / "index").glob("*.jsonl"))
        if not found:
            raise RecordingError(f"{self.place} holds no recording; write one by pytest --fx-record {self.place}")
        for path in found:
            yield path.name, self._records(path)

    def _records(self, path: Path) -> Iterator[Record]:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.endswith("\n"):  # the last line of a process that was cut off
                    yield from_line(line, f"{path}, line {number}")

    def _graph_path(self, graph: str) -> Path:
        return self._root / "graphs" / f"{graph}.yaml"


class IndexWriter:
    """The index that one process writes. Every record is on disk before the next test runs."""

    def __init__(self, path: Path, run: RunRecord) -> None:
        self._file: TextIO = path.open("x", encoding="utf-8", newline="\n")
        self.add(run)
        self.flush()

    def add(self, record: Record) -> None:
        """Add a record."""
        self._file.write(to_line(record) + "\n")

    def flush(self) -> None:
        """Hand all records to the system."""
        self._file.flush()

    def close(self) -> None:
        """End the index. Add the EndRecord before it, unless the process was cut off."""
        self._file.close()
