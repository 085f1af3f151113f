"""Received files: found in a project, compared with their goldens, accepted or rejected.

`fxgraph accept` and `fxgraph review` work on them.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_fxgraph.command.golden_source import read_bytes
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import GateError, GoldenError, GoldenFormatError
from pytest_fxgraph.goldens import files
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_columns import row_differences
from pytest_fxgraph.goldens.table_file import TableFile
from pytest_fxgraph.goldens.table_rows import Row, rows_if_table
from pytest_fxgraph.grouping import grouped
from pytest_fxgraph.report.clusters import Cause, Cluster, cause_parts, clustered
from pytest_fxgraph.report.outcome import Terms
from pytest_fxgraph.report.printable import first_lines, printable_line
from pytest_fxgraph.report.progress import tracked
from pytest_fxgraph.report.text import headline

SHOWN = 5  # names, or rows, of one cause


@dataclass(frozen=True)
class ReceivedGolden:
    """A received file, or one received row of a table. It can replace its golden."""

    path: Path
    row: str | None = None  # the name of the row; None for a graph, and for a table as a whole

    @property
    def golden(self) -> Path:
        """The path of the golden that the file would replace."""
        return files.golden_of_received(self.path)

    @property
    def name(self) -> str:
        """The golden as reports and the command print it: its path, of a row with the name of the row."""
        return self.golden.as_posix() + ("" if self.row is None else f"[{self.row}]")

    def shown_by(self) -> str:
        """Return the command that shows the difference from the golden, or the graph where no golden is there."""
        paths = [self.golden, self.path] if self.golden.exists() else [self.path]
        return shlex.join(["fxgraph", "diff" if len(paths) > 1 else "show", *(path.as_posix() for path in paths)])

    def parts(self) -> list[ReceivedGolden]:
        """Return what is accepted by itself: each row of a table that differs, else the file as a whole.

        A table that cannot be read is replaced as a whole. Raises GoldenError if the received file cannot be read.
        """
        received, table = self._tables()
        if not received or table is None:
            return [self]
        names = [name for name, row in received.items() if row != table.get(name)]
        return [ReceivedGolden(self.path, name) for name in names] or [self]

    def difference(self, terms: Terms | None = None) -> Difference | None:
        """Compare with the golden; return None for a table, or if no golden can be read.

        The terms are those of the test that wrote the received file. Raises GoldenError if the received file itself
        cannot be read.
        """
        if self.table_lines() is not None:
            return None
        golden, received = self.documents()
        terms = terms or Terms.from_dict(self._read().cause)
        return None if golden is None else compare_documents(golden, received, **terms._asdict())

    def documents(self) -> tuple[GraphDocument | None, GraphDocument]:
        """Return the golden, None if none can be read, and the received document.

        Raises GoldenError if the received file itself cannot be read.
        """
        received = decode(self._read().text, str(self.path))
        try:
            return decode(read_bytes(self.golden), str(self.golden)), received
        except GoldenError:
            return None, received

    def table_lines(self) -> list[str] | None:
        """Describe the rows that differ from the table's rows; None for a graph.

        Raises GoldenError if the received file itself cannot be read.
        """
        received, table = self._tables()
        if received is None:
            return None
        table = table or {}
        if self.row is not None:
            table, received = (
                {name: row for name, row in rows.items() if name == self.row} for rows in (table, received)
            )
        return [*row_differences(table, received)]

    def _tables(self) -> tuple[Mapping[str, Row] | None, Mapping[str, Row] | None]:
        """Return the received rows, None for a graph, and the rows of the table, None if they cannot be read."""
        received = rows_if_table(self._read().text.encode(), str(self.path))
        if received is None or not self.golden.exists():
            return received, {}
        try:
            return received, rows_if_table(read_bytes(self.golden), str(self.golden))
        except GoldenError:
            return received, None

    def cause(self) -> Cause:
        """Return the cause that the test stored. Without one, compare."""
        stored = self._read().cause
        if self.row is not None:
            stored = stored.get("rows", {}).get(self.row, {})
        if stored.get("cluster"):
            return Cause(self.name, str(stored["headline"]), cluster=str(stored["cluster"]))
        if self.row is not None and self.row in (self._tables()[1] or {}):
            words = [line.removeprefix(f"~ {self.row}: ") for line in self.table_lines() or []]
            return Cause(self.name, "; ".join(words), tuple(words))
        difference = self.difference()
        if difference is None:
            is_new = self.row is not None or not self.golden.exists()
            reason = "there is no golden yet" if is_new else "the golden cannot be read"
            reason = "no difference in a row" if self.table_lines() == [] else reason
        elif difference.is_empty:
            reason = nothing_differs(difference)
        elif stored.get("headline"):
            reason = str(stored["headline"])
        else:
            return Cause(self.name, headline(difference), cause_parts(difference, self.name))
        return Cause(self.name, reason, (reason,))

    def accept(self, rows: Sequence[str] = ()) -> None:
        """Put the text, or rows of it, in the place of the golden.

        Raises GoldenError if the golden is another one by now.
        """
        if rows:
            self._check_replaced(self._table_file().accept(rows))
            return
        received = self._read()
        if rows_if_table(received.text.encode(), str(self.path)) is None:
            decode(received.text, str(self.path))  # a text that cannot be read becomes no golden
        store = GoldenStore(self.golden.parent)
        # The golden may hold the text already: a command was killed before it removed the received file.
        self._check_replaced(store.replace(self.golden.name, received.text, received.compared_with))
        self.path.unlink()

    def is_outdated(self) -> bool:
        """Return whether `accept` would refuse the file, because the golden is another one by now; False for a row."""
        received = self._read()
        store = GoldenStore(self.golden.parent)
        try:
            return self.row is None and not store.may_replace(self.golden.name, received.text, received.compared_with)
        except GoldenError:  # a link out of the folder
            return True

    def _check_replaced(self, is_replaced: bool) -> None:
        if not is_replaced:
            raise GoldenError(
                f"cannot accept {self.path}: {self.golden} is no longer the golden that it was compared with; "
                "run the test again with pytest --fx-received"
            )

    def reject(self, rows: Sequence[str] = ()) -> None:
        """Remove what was received, or rows of it; the golden stays as it is. Raises GoldenError if that fails."""
        if rows:
            self._table_file().receive(dict.fromkeys(rows))
        else:
            GoldenStore(self.path.parent).remove(self.path.name)

    def _table_file(self) -> TableFile:
        return TableFile(GoldenStore(self.golden.parent), PurePosixPath(self.golden.name), str(self.golden))

    def _read(self) -> files.Received:
        return files.read_received(GoldenStore(self.path.parent).read(self.path.name), str(self.path))


def received_in(layout: GoldenLayout) -> list[ReceivedGolden]:
    """Return all received files of a project."""
    return [ReceivedGolden(layout.root / path) for path in layout.goldens() if files.is_received(path)]


def take_over(folders: Iterable[str], layout: GoldenLayout) -> int:
    """Copy received files of other machines beside their goldens, and return the number of copies.

    A folder has them at any depth, for example below the name of a shard. Raises GateError, before anything is copied,
    for a folder without received files, a file of no golden or test here, and two files that differ for one golden.
    """
    found: dict[PurePosixPath, Path] = {}
    for folder in folders:
        paths = [path for path in files.goldens_below(Path(folder)) if files.is_received(path)]
        if not paths:
            reason = f"it holds no *{files.RECEIVED_SUFFIX}" if os.path.isdir(folder) else "there is no such folder"
            raise GateError(f"cannot accept from {folder}: {reason}; name the unpacked folder")
        for path in paths:
            place = _place_of(path, Path(folder, path), layout)
            first = found.setdefault(place, Path(folder, path))
            for other in (first, layout.root / place):
                if other.is_file() and read_bytes(other) != read_bytes(Path(folder, path)):
                    raise GateError(
                        f"cannot accept {Path(folder, path)}: {other} holds another graph for the same golden; "
                        "find the reason why the two runs differ, and remove one of the files"
                    )
    store = GoldenStore(layout.root)
    return sum(store.write(place, read_bytes(path).decode()) for place, path in found.items())


def _place_of(path: PurePosixPath, source: Path, layout: GoldenLayout) -> PurePosixPath:
    """Return the place of a received file below the golden folder: the longest end of its path that has a golden."""
    ends = [PurePosixPath(*path.parts[start:]) for start in range(len(path.parts))]
    for end in ends:
        if (layout.root / files.golden_of_received(end)).is_file():
            return end
    for end in ends:
        tested = layout.file_tested_by(files.golden_of_received(end))
        if tested is not None and (layout.rootpath / tested).is_file():
            return end
    raise GateError(f"cannot accept {source}: there is no golden and no test file of its name here; change the folder")


def received_that_match(patterns: Iterable[str], layout: GoldenLayout) -> list[ReceivedGolden]:
    """Return the received files of goldens that patterns name: paths, globs or folders; a `*` matches slashes too.

    Paths are relative to the working directory or, as pytest prints them, to rootdir. Raises GoldenFormatError if
    nothing matches one of the patterns.
    """
    known = received_in(layout)
    found: dict[str, ReceivedGolden] = {}  # by absolute path, as a pattern and the layout may name one file in two ways
    for pattern in patterns:
        matching = list(_matching(os.path.normpath(pattern), known))
        if not matching and not os.path.isabs(pattern):
            matching = list(_matching(os.path.normpath(layout.rootpath / pattern), known))
        if not matching:
            raise GoldenFormatError(
                f"cannot accept {pattern!r}: nothing was received for such a golden; run its tests with "
                "pytest --fx-received, and look at what there is with `fxgraph accept`"
            )
        found.update({os.path.abspath(received.path): received for received in matching})
    return [found[path] for path in sorted(found)]


def _matching(pattern: str, known: list[ReceivedGolden]) -> Iterator[ReceivedGolden]:
    for path in map(Path, {pattern, *glob.glob(pattern, recursive=True)}):
        received = path if files.is_received(path) else files.received_path(path)
        if path.is_dir():
            yield from (ReceivedGolden(path / each) for each in files.goldens_below(path) if files.is_received(each))
        elif received.is_file():
            yield ReceivedGolden(received)
    yield from (each for each in known if fnmatch.fnmatchcase(each.golden.as_posix(), pattern.replace(os.sep, "/")))


def nothing_differs(difference: Difference) -> str:
    """Describe a received file with the golden's graph at the level of its test."""
    return f"no difference at level {difference.level}: names, order or code"


def clusters_of(received: list[ReceivedGolden]) -> list[Cluster]:
    """Group received graphs and rows by cause, the cause of most goldens first."""
    return clustered(each.cause() for each in tracked(received, "compared", sys.stderr))


def shown_names(names: Iterable[str], indent: str) -> list[str]:
    """Return the names of the goldens of one cause, and the number of further ones."""
    return [f"{indent}{line}" for line in first_lines([*names], SHOWN)]


def by_file(received: Iterable[ReceivedGolden]) -> list[list[ReceivedGolden]]:
    """Put the received rows of a table together, because one write decides about all of them."""
    return list(grouped(received, lambda each: each.path).values())


def decide(received: Sequence[ReceivedGolden], *, accepts: bool) -> list[str]:
    """Accept or reject a received file, or rows of it; return a line for each. Print the reason for a failure."""
    first = received[0]
    try:
        (first.accept if accepts else first.reject)([each.row for each in received if each.row is not None])
    except GateError as error:
        print(f"fxgraph: {printable_line(str(error))}", file=sys.stderr)
        return []
    return [f"{'accepted' if accepts else 'rejected'} {each.name}" for each in received]
