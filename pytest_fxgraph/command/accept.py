"""Received files that wait to be accepted, and how each differs from its golden."""

from __future__ import annotations

import argparse
import fnmatch
import glob
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.golden_source import read_bytes
from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, print_lines
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.errors import GateError, GoldenError, GoldenFormatError
from pytest_fxgraph.golden.files import (
    golden_digest,
    golden_of_received,
    goldens_below,
    is_received,
    read_received,
    received_path,
)
from pytest_fxgraph.golden.store import GoldenStore
from pytest_fxgraph.report.clusters import Cause, Cluster, cause_parts, chosen_cluster, clustered
from pytest_fxgraph.report.printable import printable
from pytest_fxgraph.report.text import headline


@dataclass(frozen=True)
class Pending:
    """One received file."""

    path: Path

    @property
    def golden(self) -> Path:
        """Name the golden that it would replace."""
        return golden_of_received(self.path)

    def difference(self) -> Difference | None:
        """Compare with the golden at level structure; None where there is no golden that could be read."""
        received = decode(self._text(), str(self.path))
        try:
            golden = decode(read_bytes(self.golden), str(self.golden))
        except GoldenError:
            return None
        return compare_documents(golden, received)

    def cause(self) -> Cause:
        """Say why it is there, in a form that can be compared with those of others."""
        name = self.golden.as_posix()
        difference = self.difference()
        if difference is None:
            words = "the golden cannot be read" if self.golden.exists() else "there is no golden yet"
            return Cause(name, words, (words,))
        if difference.is_empty:
            words = "no difference at level structure: names, order or code"
            return Cause(name, words, (words,))
        return Cause(name, headline(difference), cause_parts(difference, name))

    def accept(self) -> None:
        """Put it in the place of its golden; refused if the golden is no longer the one it was compared with."""
        store = GoldenStore(self.golden.parent)
        received = read_received(GoldenStore(self.path.parent).read(self.path.name), str(self.path))
        decode(received.text, str(self.path))  # nothing that could not be read becomes a golden
        there = store.digest(self.golden.name)
        # One that is the golden already was accepted by a command that was killed before it could clear up.
        if there not in (received.compared_with, golden_digest(received.text.encode("utf-8", "surrogatepass"))):
            raise GoldenError(
                f"cannot accept {self.path}: {self.golden} is no longer the golden that it was compared with; "
                "run the test again with pytest --fx-received"
            )
        store.write(self.golden.name, received.text)
        self.path.unlink()

    def _text(self) -> str:
        return read_received(GoldenStore(self.path.parent).read(self.path.name), str(self.path)).text


def pending_below(folder: Path) -> list[Pending]:
    """Find the received files of a golden folder."""
    return [Pending(folder / path) for path in goldens_below(folder) if is_received(path)]


def pending_that_match(patterns: Iterable[str], folder: Path) -> list[Pending]:
    """Find the received files of goldens that patterns name: paths, globs, or folders; a `*` matches slashes too."""
    known = pending_below(folder)
    found: dict[Path, Pending] = {}
    for pattern in patterns:
        matching = list(_matching(os.path.normpath(pattern), known))
        if not matching:
            raise GoldenFormatError(
                f"cannot accept {pattern!r}: nothing was received for such a golden; run its tests with "
                "pytest --fx-received, and look at what there is with `fxgraph accept`"
            )
        found.update({pending.path: pending for pending in matching})
    return [found[path] for path in sorted(found)]


def _matching(pattern: str, known: list[Pending]) -> Iterator[Pending]:
    for path in map(Path, {pattern, *glob.glob(pattern, recursive=True)}):
        received = path if is_received(path) else received_path(path)
        if path.is_dir():
            yield from pending_below(path)
        elif received.is_file():
            yield Pending(received)
    yield from (one for one in known if fnmatch.fnmatchcase(one.golden.as_posix(), pattern.replace(os.sep, "/")))


_SHOWN = 5


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
    parser.add_argument(
        "--golden-dir", type=Path, default=Path("golden"), metavar="DIR", help="where goldens lie; default: %(default)s"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.golden_dir
    if options.patterns:
        return _accept(pending_that_match(options.patterns, folder))
    pending = pending_below(folder)
    if options.refresh:
        return _accept([one for one in pending if _is_refreshing(one)])
    clusters = clustered(one.cause() for one in pending)
    if options.cluster is None:
        print_lines(_listing(clusters, folder))
        return DIFFERENT if clusters else SAME
    chosen = chosen_cluster(clusters, options.cluster)
    if chosen is None:
        raise GateError(
            f"cannot accept cluster {options.cluster!r}: there is none; `fxgraph accept` lists those there are"
        )
    return _accept([one for one in pending if one.golden.as_posix() in chosen.goldens])


def _is_refreshing(pending: Pending) -> bool:
    difference = pending.difference()
    return difference is not None and difference.is_empty


def _accept(pending: list[Pending]) -> int:
    """Accept what can be accepted, and tell the rest."""
    status = SAME
    for one in pending:
        try:
            one.accept()
            print_lines([f"accepted {one.golden.as_posix()}"])
        except GateError as error:
            print(f"fxgraph: {printable(str(error))}", file=sys.stderr)
            status = FAILED
    return status


def _listing(clusters: list[Cluster], folder: Path) -> Iterator[str]:
    if not clusters:
        yield f"nothing was received below {folder}" if folder.is_dir() else f"there is no folder {folder} here"
        return
    for number, cluster in enumerate(clusters, start=1):
        count = len(cluster.goldens)
        yield f"{number}  {cluster.key}  {count} golden{'s' if count > 1 else ''}: {cluster.headline}"
        yield from (f"     {golden}" for golden in cluster.goldens[:_SHOWN])
        if count > _SHOWN:
            yield f"     and {count - _SHOWN} more"
    yield f"look at one with `fxgraph diff`; accept one cluster with `fxgraph accept --cluster {clusters[0].key}`"
