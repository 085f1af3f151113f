"""`fxgraph accept`: received files replace their goldens, all files of one cause at once."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_json, print_answer, print_json, print_lines
from pytest_fxgraph.command.project import add_golden_dir, golden_layout_here
from pytest_fxgraph.command.received import (
    ReceivedGolden,
    by_file,
    clusters_of,
    decide,
    received_in,
    received_that_match,
    shown_names,
    take_over,
)
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.report.clusters import Cluster, chosen_cluster
from pytest_fxgraph.report.outcome import Terms
from pytest_fxgraph.report.printable import counted
from pytest_fxgraph.report.progress import tracked

_MOST_NAMED = 20  # accepted goldens

HELP = "replace goldens by what pytest --fx-received wrote beside them"
DESCRIPTION = (
    "Without arguments: list what was received, the same difference of many goldens as one cluster; the exit status is "
    "1 if there is something."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
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
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        default=[],
        help="first copy the received files of this folder, for example of a shard in CI, beside their goldens",
    )
    add_golden_dir(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    layout = golden_layout_here(options.golden_dir)
    if options.folders:
        taken = take_over(options.folders, layout)
        print(f"took over {counted(taken, 'received file')}", file=sys.stderr)
    if options.patterns:
        return _accept(received_that_match(options.patterns, layout), is_json=options.json)
    received = received_in(layout)
    if options.refresh:
        compared = tracked(received, "compared", sys.stderr)
        return _accept([each for each in compared if _matches_at_structure(each)], is_json=options.json)
    received = [part for each in received for part in each.parts()]
    clusters = [with_command(cluster, options.golden_dir) for cluster in clusters_of(received)]
    if options.cluster is None:
        print_answer(options, clusters, _listing(clusters, layout, received))
        return DIFFERENT if clusters else SAME
    chosen = chosen_cluster(clusters, options.cluster)
    if chosen is None:
        raise GateError(
            f"cannot accept cluster {options.cluster!r}: there is none; `fxgraph accept` lists those there are"
        )
    return _accept([each for each in received if each.name in chosen.goldens], is_json=options.json)


def _matches_at_structure(received: ReceivedGolden) -> bool:
    difference = received.difference(Terms())
    return difference is not None and difference.is_empty


def _accept(received: list[ReceivedGolden], *, is_json: bool) -> int:
    """Accept goldens, print the reason for each that cannot be accepted, and return the exit status."""
    accepted: list[str] = []
    # At a terminal, a number says more than hundreds of lines. A log has all lines.
    is_counted = len(received) > _MOST_NAMED and sys.stdout.isatty()
    for each in tracked(by_file(received), "accepted", sys.stderr):
        lines = decide(each, accepts=True)
        accepted += [part.name for part in each] if lines else []
        print_lines([] if is_counted or is_json else lines)
    if is_json:
        print_json({"accepted": accepted})
    elif is_counted:
        print_lines([f"accepted {len(accepted)} of {len(received)} goldens"])
    return SAME if len(accepted) == len(received) else FAILED


def with_command(cluster: Cluster, golden_dir: str | None) -> Cluster:
    """Return a cluster of all received goldens with the command that accepts the cluster."""
    place = ["--golden-dir", golden_dir] if golden_dir is not None else []
    command = shlex.join(["fxgraph", "accept", *place, "--cluster", cluster.key])
    return cluster._replace(commands=((command, f"all {counted(len(cluster.goldens), 'golden')}"),))


def _listing(clusters: list[Cluster], layout: GoldenLayout, received: list[ReceivedGolden]) -> Iterator[str]:
    if not clusters:
        folder = layout.root
        yield f"nothing was received below {folder}" if folder.is_dir() else f"there is no folder {folder} here"
        return
    for number, cluster in enumerate(clusters, start=1):
        yield f"{number}  {cluster.key}  {counted(len(cluster.goldens), 'golden')}: {cluster.headline}"
        yield from shown_names(cluster.goldens, "     ")
    outdated = [each.name for each in received if each.is_outdated()]
    for name in outdated[:_MOST_NAMED]:
        yield f"{name} is no longer the golden that was compared; run its test again with pytest --fx-received"
    acceptable = [cluster for cluster in clusters if set(outdated).isdisjoint(cluster.goldens)]
    if acceptable:
        first = next(each for each in received if each.name == acceptable[0].goldens[0])
        ((command, _),) = acceptable[0].commands
        yield f"look at {f'cluster {acceptable[0].key}' if outdated else 'the first'} with `{first.shown_by()}`"
        yield f"accept its cluster with `{command}`"
