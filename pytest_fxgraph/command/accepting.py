"""`fxgraph accept`: put what was received in the place of goldens."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.pending import Pending, pending_below, pending_that_match
from pytest_fxgraph.command.printing import print_lines
from pytest_fxgraph.command.status import DIFFERENT, SAME, TROUBLE
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.clusters import Cluster, chosen_cluster, clustered
from pytest_fxgraph.report.printable import printable

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
            status = TROUBLE
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
