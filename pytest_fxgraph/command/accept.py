"""`fxgraph accept`: received files replace their goldens, all of one cause at once."""

from __future__ import annotations

import argparse
import fnmatch
import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.golden_source import read_bytes
from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, print_lines
from pytest_fxgraph.command.project import add_golden_dir, golden_layout_here
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import GateError, GoldenError, GoldenFormatError
from pytest_fxgraph.goldens.files import (
    Received,
    golden_of_received,
    goldens_below,
    is_received,
    read_received,
    received_path,
)
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.goldens.table_columns import row_differences
from pytest_fxgraph.goldens.table_rows import Row, rows_if_table
from pytest_fxgraph.report.clusters import Cause, Cluster, cause_parts, chosen_cluster, clustered
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.report.progress import tracked
from pytest_fxgraph.report.text import headline

_SHOWN = 5
_MOST_NAMED = 20  # that were accepted


@dataclass(frozen=True)
class ReceivedGolden:
    """A received file, which can replace its golden."""

    path: Path

    @property
    def golden(self) -> Path:
        """Return the path of the golden that it would replace."""
        return golden_of_received(self.path)

    def difference(self) -> Difference | None:
        """Compare with the golden at level structure; return None for a table, or if no golden can be read.

        Raises GoldenError if the received file itself cannot be read.
        """
        if self.table_lines() is not None:
            return None
        golden, received = self.documents()
        return None if golden is None else compare_documents(golden, received)

    def documents(self) -> tuple[GraphDocument | None, GraphDocument]:
        """Return its golden, None if there is none that can be read, and what was received.

        Raises GoldenError if the received file itself cannot be read.
        """
        received = decode(self._read().text, str(self.path))
        try:
            return decode(read_bytes(self.golden), str(self.golden)), received
        except GoldenError:
            return None, received

    def table_lines(self) -> list[str] | None:
        """Describe the rows that differ from those of its table; None if it is a graph.

        Raises GoldenError if the received file itself cannot be read.
        """
        received = rows_if_table(self._read().text.encode(), str(self.path))
        if received is None:
            return None
        table: Mapping[str, Row] = {}
        with suppress(GoldenError):  # there is none yet, or none that can be read
            table = rows_if_table(read_bytes(self.golden), str(self.golden)) or {}
        return [*row_differences(table, received)]

    def cause(self) -> Cause:
        """Return why it differs from its golden, in a form that can be compared with the causes of others."""
        name = self.golden.as_posix()
        rows = self.table_lines()
        if rows is not None:
            reason = "; ".join(rows[:_SHOWN]) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")
            return Cause(name, reason or "no difference in a row", (name, *rows))
        difference = self.difference()
        if difference is None:
            reason = "the golden cannot be read" if self.golden.exists() else "there is no golden yet"
        elif difference.is_empty:
            reason = "no difference at level structure: names, order or code"
        else:
            return Cause(name, headline(difference), cause_parts(difference, name))
        return Cause(name, reason, (reason,))

    def accept(self) -> None:
        """Put it in the place of its golden. Raises GoldenError if the golden is not the one it was compared with."""
        received = self._read()
        if rows_if_table(received.text.encode(), str(self.path)) is None:
            decode(received.text, str(self.path))  # nothing that could not be read becomes a golden
        store = GoldenStore(self.golden.parent)
        # The golden may hold the text already: a command was killed before it removed the received file.
        if not store.replace(self.golden.name, received.text, received.compared_with):
            raise GoldenError(
                f"cannot accept {self.path}: {self.golden} is no longer the golden that it was compared with; "
                "run the test again with pytest --fx-received"
            )
        self.path.unlink()

    def reject(self) -> None:
        """Remove it; the golden stays as it is. Raises GoldenWriteError if it cannot be removed."""
        GoldenStore(self.path.parent).remove(self.path.name)

    def _read(self) -> Received:
        return read_received(GoldenStore(self.path.parent).read(self.path.name), str(self.path))


def received_in(layout: GoldenLayout) -> list[ReceivedGolden]:
    """Return all received files of a project."""
    return [ReceivedGolden(layout.root / path) for path in layout.goldens() if is_received(path)]


def received_that_match(patterns: Iterable[str], layout: GoldenLayout) -> list[ReceivedGolden]:
    """Return the received files of goldens that patterns name: paths, globs or folders; a `*` matches slashes too.

    Paths are relative to the working directory or, as pytest prints them, to rootdir. Raises GoldenFormatError if
    nothing matches one of the patterns.
    """
    known = received_in(layout)
    found: dict[Path, ReceivedGolden] = {}
    for pattern in patterns:
        matching = list(_matching(os.path.normpath(pattern), known))
        if not matching and not os.path.isabs(pattern):
            matching = list(_matching(os.path.normpath(layout.rootpath / pattern), known))
        if not matching:
            raise GoldenFormatError(
                f"cannot accept {pattern!r}: nothing was received for such a golden; run its tests with "
                "pytest --fx-received, and look at what there is with `fxgraph accept`"
            )
        found.update({received.path: received for received in matching})
    return [found[path] for path in sorted(found)]


def _matching(pattern: str, known: list[ReceivedGolden]) -> Iterator[ReceivedGolden]:
    for path in map(Path, {pattern, *glob.glob(pattern, recursive=True)}):
        received = path if is_received(path) else received_path(path)
        if path.is_dir():
            yield from (ReceivedGolden(path / each) for each in goldens_below(path) if is_received(each))
        elif received.is_file():
            yield ReceivedGolden(received)
    yield from (each for each in known if fnmatch.fnmatchcase(each.golden.as_posix(), pattern.replace(os.sep, "/")))


def add_accept(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "accept",
        help="replace goldens by what pytest --fx-received wrote beside them",
        description="Without arguments: list what was received, the same difference of many goldens as one cluster; "
        "the exit status is 1 if there is something.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--cluster", metavar="K", help="accept all goldens of one cluster, by its key or number")
    which.add_argument(
        "--refresh",
        action="store_true",
        help="accept what is no difference at level structure: names, order, generated code",
    )
    which.add_argument(
        "patterns", metavar="GLOB", nargs="*", default=[], help="accept these goldens, or all of a folder"
    )
    add_golden_dir(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    layout = golden_layout_here(options.golden_dir)
    if options.patterns:
        return _accept(received_that_match(options.patterns, layout))
    received = received_in(layout)
    compared = tracked(received, "compared", sys.stderr)
    if options.refresh:
        return _accept([each for each in compared if _matches_at_structure(each)])
    clusters = clustered(each.cause() for each in compared)
    if options.cluster is None:
        print_lines(_listing(clusters, layout))
        return DIFFERENT if clusters else SAME
    chosen = chosen_cluster(clusters, options.cluster)
    if chosen is None:
        raise GateError(
            f"cannot accept cluster {options.cluster!r}: there is none; `fxgraph accept` lists those there are"
        )
    return _accept([each for each in received if each.golden.as_posix() in chosen.goldens])


def _matches_at_structure(received: ReceivedGolden) -> bool:
    difference = received.difference()
    return difference is not None and difference.is_empty


def _accept(received: list[ReceivedGolden]) -> int:
    """Accept what can be accepted, print why the rest cannot, and return the exit status."""
    accepted = 0
    # Hundreds of lines say less to somebody who looks than their number does; a log has all of them.
    is_counted = len(received) > _MOST_NAMED and sys.stdout.isatty()
    for each in tracked(received, "accepted", sys.stderr):
        try:
            each.accept()
            accepted += 1
            print_lines([] if is_counted else [f"accepted {each.golden.as_posix()}"])
        except GateError as error:
            print(f"fxgraph: {printable_line(str(error))}", file=sys.stderr)
    if is_counted:
        print_lines([f"accepted {accepted} of {len(received)} goldens"])
    return SAME if accepted == len(received) else FAILED


def _listing(clusters: list[Cluster], layout: GoldenLayout) -> Iterator[str]:
    if not clusters:
        folder = layout.root
        yield f"nothing was received below {folder}" if folder.is_dir() else f"there is no folder {folder} here"
        return
    for number, cluster in enumerate(clusters, start=1):
        count = len(cluster.goldens)
        yield f"{number}  {cluster.key}  {count} golden{'s' if count > 1 else ''}: {cluster.headline}"
        yield from (f"     {golden}" for golden in cluster.goldens[:_SHOWN])
        if count > _SHOWN:
            yield f"     and {count - _SHOWN} more"
    yield f"look at one with `fxgraph diff`; accept one cluster with `fxgraph accept --cluster {clusters[0].key}`"
